# SPDX-License-Identifier: Apache-2.0
# Prepares a page for Doxygen, which runs it on each: pages and headings get labels, so that the address of a page is its
# name (docs/cuda.md is cuda.html) and that of a heading is the one that code hosts give it (cuda.html#cuda-kernels after
# the page's name), and links to pages and headings become references to these labels, which Doxygen checks. What a
# block of code needs, in the comment before it, becomes a block of its own, which is folded.
#
#   awk -f prepare_page.awk PAGE

function label_of_page(path) {
  sub(/.*\//, "", path)
  sub(/\.md$/, "", path)
  return tolower(path) == "readme" ? "index" : tolower(path)
}

# The anchor of a heading, as code hosts make it.
function slug(text) {
  text = tolower(text)
  gsub(/[^a-z0-9 _-]/, "", text)
  gsub(/ /, "-", text)
  return text
}

# A heading as plain text: Doxygen 1.9.4 shows the marks of code in headings. What else it would take for marks is escaped.
function plain(text) {
  if (text !~ /`/) return text
  gsub(/`/, "", text)
  gsub(/[*_<>#@&~%\\]/, "\\\\&", text)
  gsub(/---?/, "\\\\&", text)
  return text
}

# The text, which ends with "](", without the marks of code in that last link: a reference shows them.
function without_code_in_link(text,    at, link_text) {
  for (at = length(text) - 2; at > 0 && substr(text, at, 1) != "["; --at);
  if (at == 0) return text
  link_text = substr(text, at)
  gsub(/`/, "", link_text)
  return substr(text, 1, at - 1) link_text
}

# The line with its links rewritten; what stands in code stays.
function with_links(text,    done, link, path, anchor) {
  while (match(text, /\]\(([A-Za-z0-9_.\/-]*\.md)?(#[A-Za-z0-9_-]+)?\)/)) {
    link = substr(text, RSTART + 2, RLENGTH - 3)
    done = done substr(text, 1, RSTART + 1)
    text = substr(text, RSTART + RLENGTH)
    if (link == "" || gsub(/`/, "`", done) % 2) {
      done = done link ")"
      continue
    }
    path = link
    sub(/#.*/, "", path)
    anchor = index(link, "#") ? substr(link, index(link, "#") + 1) : ""
    path = path == "" ? page : label_of_page(path)
    done = without_code_in_link(done) "@ref " path (anchor == "" ? "" : "-" anchor) ")"
  }
  text = done text
  gsub(/\]\(docs\/pictures\//, "](pictures/", text)  # Doxygen looks for pictures in docs/
  while (match(text, /\[[^\]]*\]\((CITATION\.cff|(\.\.\/)?(src|include|tests|tools|examples|benchmarks|scripts|docs|cmake)\/[^) ]*)\)/)) {
    link = substr(text, RSTART + 1, RLENGTH - 1)
    sub(/\]\([^(]*$/, "", link)
    text = substr(text, 1, RSTART - 1) link substr(text, RSTART + RLENGTH)
  }
  return text
}

# The line with bold text as HTML where it has code in it, which Doxygen 1.9.4 leaves as it is.
function with_bold(text,    count, part, i, marks, result) {
  if (text !~ /\*\*/ || text !~ /`/) return text
  count = split(text, part, "`")
  for (i = 1; i <= count; i += 2) marks += gsub(/\*\*/, "&", part[i])
  if (marks % 2) return text
  marks = 0
  for (i = 1; i <= count; ++i) {
    if (i % 2)
      while (sub(/\*\*/, marks % 2 ? "</b>" : "<b>", part[i])) ++marks
    result = result (i > 1 ? "`" : "") part[i]
  }
  return result
}

# Whether a link begins in the line whose text goes on in the next one; what stands in code is none.
function opens_link(text) {
  gsub(/`[^`]*(`|$)/, "", text)
  return text ~ /\[[^]]*$/
}

# Code that is shown when its summary is clicked.
function folded(code) {
  return "@htmlonly[block]<details class=\"code-before\"><summary>Declared before this</summary>@endhtmlonly\n\n" \
    "```cpp\n" code "```\n\n@htmlonly[block]</details>@endhtmlonly\n"
}

FNR == 1 { page = label_of_page(FILENAME) }

# The comment before a block of code: "<!-- code: WHAT", lines of code, "-->".
!in_code && /^<!-- code:/ {
  comment = $0
  needed = ""
  in_comment = !/-->/
  if (in_comment) next
}
in_comment {
  comment = comment "\n" $0
  if (/^-->/) in_comment = 0
  else needed = needed $0 "\n"
  next
}
comment != "" {
  if (needed != "" && /^```cpp/) print folded(needed)
  else if ($0 != comment) print comment
  comment = ""
}

# Joins the two lines of such a link, which Doxygen 1.9.4 does not close.
opened != "" {
  if (/^[^][]*\]\(/) {
    sub(/^ +/, "")
    $0 = opened " " $0
  } else print with_bold(with_links(opened))
  opened = ""
}

/^```/ { in_code = !in_code }
in_code || /^```/ {
  print
  next
}

/^#+ / {
  level = length($1)
  title = substr($0, level + 2)
  anchor = slug(title)
  if (level == 1) print $0 (page == "index" ? "" : " {#" page "}")
  else {
    number = used[anchor]++
    print $1 " " plain(title) " {#" page "-" anchor (number ? "-" number : "") "}"
  }
  next
}

opens_link($0) {
  opened = $0
  next
}

{ print with_bold(with_links($0)) }

END { if (opened != "") print with_bold(with_links(opened)) }
