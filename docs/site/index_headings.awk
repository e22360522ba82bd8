# SPDX-License-Identifier: Apache-2.0
# Adds the headings of pages to the search of a site by Doxygen 1.9.4 to 1.9.7, which finds pages by the beginning of
# their titles alone: a heading, or a title, is found by what begins at any of its words, as later versions do it.
#
#   cd html && awk -f index_headings.awk *.html

# As search.js writes what is searched for; characters beyond ASCII stay.
function id_of(text,    i, c, id) {
  for (i = 1; i <= length(text); ++i) {
    c = substr(text, i, 1)
    id = id (c in number && c !~ /[a-z0-9]/ ? sprintf("_%02x", number[c]) : c)
  }
  return id
}

# Adds an entry for each word of the text, which is HTML, from the given one on.
function add(text, link, scope, from,    plain, at, seen, word, first, entry) {
  gsub(/<[^>]*>/, "", text)
  gsub(/\\/, "\\\\&", text)
  gsub(/\047/, "\\&#39;", text)
  plain = tolower(text)
  gsub(/&lt;/, "<", plain)
  gsub(/&gt;/, ">", plain)
  gsub(/&quot;/, "\"", plain)
  gsub(/&apos;|&#39;/, "\047", plain)
  gsub(/&#160;|&nbsp;/, " ", plain)
  gsub(/&amp;/, "\\&", plain)
  for (first = 1; match(plain, /[a-z0-9_]+/); plain = substr(plain, at + length(word))) {
    at = RSTART
    word = substr(plain, at, RLENGTH)
    if (first++ < from || word in seen || (first > 2 && word ~ common)) continue
    seen[word] = 1
    entry = sprintf("  [\047%s_h%d\047,[\047%s\047,[\047../%s\047,1,\047%s\047]]],\n", id_of(substr(plain, at)), ++count,
      text, link, scope)
    entries[substr(word, 1, 1)] = entries[substr(word, 1, 1)] entry
  }
}

# Adds the entries to the files of a section of the search, one for each character; `letters` has those that exist.
function write_entries(section, letters,    all, n, c, at, line, text, file) {
  all = "0123456789_abcdefghijklmnopqrstuvwxyz"
  for (n = 1; n <= length(all); ++n) {
    c = substr(all, n, 1)
    if (!(c in entries)) continue
    at = index(letters, c)
    if (at == 0) {
      letters = letters c
      at = length(letters)
      text = ""
      while ((getline line < ("search/" section "_0.html")) > 0) {
        sub(section "_0\\.js", section sprintf("_%x.js", at - 1), line)
        text = text line "\n"
      }
      close("search/" section "_0.html")
      printf "%s", text > ("search/" section sprintf("_%x.html", at - 1))
    }
    file = "search/" section sprintf("_%x.js", at - 1)
    text = ""
    while ((getline line < file) > 0)
      if (line ~ /^  \[/) text = text line "\n"
    close(file)
    if (text ~ /[^,]\n$/) text = substr(text, 1, length(text) - 1) ",\n"
    printf "var searchData=\n[\n%s];\n", text entries[c] > file
    close(file)
  }
  return letters
}

BEGIN {
  for (i = 1; i < 128; ++i) number[sprintf("%c", i)] = i
  common = "^(a|an|and|as|at|by|for|in|is|it|its|of|on|or|that|the|to|was|which|with)$"
}

FNR == 1 { title = "" }
title == "" && match($0, /<title>[^:]*: .*<\/title>/) {
  title = substr($0, RSTART, RLENGTH)
  sub(/^<title>[^:]*: /, "", title)
  sub(/<\/title>$/, "", title)
}
/<h[1-6]><a class="anchor" id="[^"]*"><\/a>$/ {
  if (!titled[FILENAME]++) add(title, FILENAME, "", 2)
  match($0, /id="[^"]*"><\/a>$/)
  anchor = substr($0, RSTART + 4, RLENGTH - 10)
  getline
  sub(/<\/h[1-6]>.*/, "")
  add($0, FILENAME "#" anchor, title, 1)
}

# The sections `all` and `pages` have pages; searchdata.js has the letters of each section first, then the names.
END {
  file = "search/searchdata.js"
  while ((getline line < file) > 0) {
    lines[++line_count] = line
    if (line ~ /^var /) list = line
    if (line !~ /^  [0-9]+: "/) continue
    split(line, part, "\"")
    if (list ~ /indexSectionsWithContent/) line_of[part[1]] = line_count
    if (list ~ /indexSectionNames/ && part[2] ~ /^(all|pages)$/) section_of[line_of[part[1]]] = part[2]
  }
  close(file)
  for (i = 1; i <= line_count; ++i) {
    if (i in section_of) {
      split(lines[i], part, "\"")
      lines[i] = part[1] "\"" write_entries(section_of[i], part[2]) "\"" part[3]
    }
    print lines[i] > file
  }
}
