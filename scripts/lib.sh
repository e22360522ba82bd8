# SPDX-License-Identifier: Apache-2.0
# Shared by the scripts. Sourced, by bash; sets the current directory to the top of the project.

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

# Packages to build the library, its tests and its examples. A name with a slash is package/command: an existing command
# from any source is sufficient.
build_packages=(
  g++/g++ cmake/cmake ninja-build/ninja git/git graphviz/dot
  libfmt-dev nlohmann-json3-dev libcli11-dev libgtest-dev libgmock-dev librandom123-dev
  dpkg/dpkg-deb pkg-config/pkg-config # for the tests of packages
)
# Further packages for the checks of .ci/run. One version of clang-format, since each formats a little differently.
check_packages=(clang/clang++ clang-format-14/clang-format-14 doxygen/doxygen
  doxygen-awesome-css python3-matplotlib)

# Prints the comment at the head of the script, and ends it, if the first argument is --help or -h.
help_if_asked() {
  [[ ${1:-} == --help || ${1:-} == -h ]] || return 0
  sed -n '3,${/^#/!q;s/^# \{0,1\}//;p}' "scripts/$(basename "$0")"
  exit
}

say() { printf '\n== %s\n' "$*"; }

# Announces a step; step_times prints how long each took, at the latest when the script ends or fails.
step_names=() step_starts=()
step() {
  trap step_times EXIT
  step_names+=("$*") step_starts+=("$SECONDS")
  say "$*"
}
step_times() {
  local i end
  trap - EXIT
  printf '\ntime of each step:\n'
  for i in "${!step_names[@]}"; do
    end=${step_starts[i + 1]:-$SECONDS}
    printf '%6d s  %s\n' $((end - step_starts[i])) "${step_names[i]}"
  done
}

# Counts what the single tests of GoogleTest and the sanitizers said, from a log of ctest.
count_outcomes() { # log
  say "What the tests and the sanitizers said, counted"
  sed -nE 's/^(\[ +(OK|FAILED|SKIPPED) +\]) .* ms\)$/\1/p; s/^.*((ERROR|RACECHECK) SUMMARY: .*)$/\1/p' "$1" |
    sort | uniq -c
}

fail() {
  printf '\n%s: FAILED: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# The number of jobs to build and test with: CMAKE_BUILD_PARALLEL_LEVEL, else one for each processor.
job_count() { printf '%s\n' "${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}"; }

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif [ -n "${CI:-}" ]; then
    sudo -n "$@" # no password can be typed here
  else
    sudo "$@"
  fi
}

package_is_there() {
  local package=${1%%/*} command=${1#*/}
  if [ "$command" != "$1" ]; then
    command -v "$command" >/dev/null
  else
    [ "$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null)" = installed ]
  fi
}

apt_install() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "$@" </dev/null
}

# Installs those of the given packages that are missing, with apt.
install_packages() {
  local entry missing=()
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    say "No apt here: going on without a look at what is installed (needed: ${*%%/*})"
    return
  fi
  for entry in "$@"; do
    package_is_there "$entry" || missing+=("${entry%%/*}")
  done
  if [ ${#missing[@]} -eq 0 ]; then
    say "Nothing to install: all packages are there"
    return
  fi

  say "Installing what is missing: ${missing[*]}"
  if [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null; then
    fail "installing packages needs root: run this as root, or install sudo, or install these yourself: ${missing[*]}"
  fi
  # The lists of packages may be missing or old. A simulation finds the first; only the installation the second.
  if ! apt-get install --simulate "${missing[@]}" >/dev/null 2>&1; then
    as_root apt-get update </dev/null || fail "apt-get update failed; its messages are above"
    apt_install "${missing[@]}" || fail "apt-get could not install: ${missing[*]}; its messages are above"
  elif ! apt_install "${missing[@]}"; then
    say "Again, with new lists of packages"
    as_root apt-get update </dev/null || fail "apt-get update failed; its messages are above"
    apt_install "${missing[@]}" || fail "apt-get could not install: ${missing[*]}; its messages are above"
  fi
}

# Compiles through ccache where that is installed. Grouped sources name the tree: each clone has entries of its own.
if command -v ccache >/dev/null; then
  export CMAKE_CXX_COMPILER_LAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER-ccache}
  export CMAKE_CUDA_COMPILER_LAUNCHER=${CMAKE_CUDA_COMPILER_LAUNCHER-ccache}
  export CCACHE_BASEDIR=${CCACHE_BASEDIR-$PWD} CCACHE_NOHASHDIR=${CCACHE_NOHASHDIR-1}
fi

# Configures a preset, with further arguments of cmake. A build directory of another generator or of a moved source tree
# is configured afresh.
configure() {
  local preset=$1 cache=build/$1/CMakeCache.txt fresh=() werror=OFF
  if [ -f "$cache" ]; then
    grep -qx 'CMAKE_GENERATOR:INTERNAL=Ninja' "$cache" || fresh=(--fresh)
    grep -qxF -e "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" -e "CMAKE_HOME_DIRECTORY:INTERNAL=$(pwd -P)" "$cache" ||
      fresh=(--fresh)
  fi
  # A newer compiler may warn of more: that ends no build of a user.
  [ -z "${CI:-}" ] || werror=ON
  cmake --preset "$preset" "${fresh[@]}" "-DREPRISE_WERROR=$werror" "${@:2}" ||
    fail "cmake could not configure the preset $preset"
}

# Builds a preset, or the named targets of it.
build() {
  local preset=$1
  shift
  cmake --build --preset "$preset" --parallel "$(job_count)" ${1:+--target "$@"} || fail "the preset $preset does not build"
}

# The version of torch that reprise::libtorch is built against and tested with; scripts/check-libtorch-versions sets
# another one.
torch_version=2.11.0

torch_folder() { printf '%s\n' "${REPRISE_TORCH_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/reprise/torch-$torch_version}"; }

torch_is_there() {
  compgen -G "$1/lib/python3*/site-packages/torch-$torch_version.dist-info" >/dev/null &&
    compgen -G "$1/lib/python3*/site-packages/torch/lib/libtorch_cpu.so" >/dev/null
}
