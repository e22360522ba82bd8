# SPDX-License-Identifier: Apache-2.0
# Runs docs/site/index_headings.awk (SCRIPT) on a made-up site, which it writes to FOLDER: one page that the search of
# Doxygen finds by its title, whose first letter is the only one there.

file(REMOVE_RECURSE "${FOLDER}")
file(WRITE "${FOLDER}/page.html" [[
<title>reprise: Graphs of its &#39;own&#39;</title>
<h1><a class="anchor" id="page-a-b--call"></a>
The <code>a&lt;B&gt;()</code> &quot;call&quot; of it</h1>
]])
file(WRITE "${FOLDER}/search/searchdata.js" [[
var indexSectionsWithContent =
{
  0: "gs",
  1: "s",
  2: "g"
};
var indexSectionNames =
{
  0: "all",
  1: "classes",
  2: "pages"
};
]])
set(own "  ['graphs_0',['Graphs',['../page.html',1,'']]]")
foreach(name IN ITEMS all_0 all_1 classes_0 pages_0)
  file(WRITE "${FOLDER}/search/${name}.html" "<script src=\"${name}.js\"></script>\n")
  file(WRITE "${FOLDER}/search/${name}.js" "var searchData=\n[\n${own}\n];\n")
endforeach()

execute_process(COMMAND awk -f "${SCRIPT}" page.html WORKING_DIRECTORY "${FOLDER}" RESULT_VARIABLE result)
if(result)
  message(FATAL_ERROR "expected exit status 0; found ${result}")
endif()

function(expect name expected)
  file(READ "${FOLDER}/search/${name}" found)
  if(NOT found STREQUAL expected)
    message(FATAL_ERROR "${name}: expected\n${expected}\nfound\n${found}")
  endif()
endfunction()

# The characters that have files, in the order of their numbers.
file(READ "${FOLDER}/search/searchdata.js" found)
if(NOT found MATCHES "0: \"gsbcot\",\n  1: \"s\",\n  2: \"gbcot\"")
  message(FATAL_ERROR "expected the new characters behind those that were there; found\n${found}")
endif()
set(heading "'The a&lt;B&gt;() &quot;call&quot; of it',['../page.html#page-a-b--call',1,'Graphs of its &#39;own&#39;']]],\n")
expect(all_1.js "var searchData=\n[\n${own}\n];\n")
expect(all_2.html "<script src=\"all_2.js\"></script>\n")
expect(all_2.js "var searchData=\n[\n  ['b_3e_28_29_20_22call_22_20of_20it_h3',[${heading}];\n")
expect(pages_4.js "var searchData=\n[\n  ['the_20a_3cb_3e_28_29_20_22call_22_20of_20it_h2',[${heading}];\n")
expect(all_4.js "var searchData=\n[\n  ['own_27_h1',['Graphs of its &#39;own&#39;',['../page.html',1,'']]],\n];\n")
