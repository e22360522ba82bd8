// SPDX-License-Identifier: Apache-2.0
// node find_test.js FIND_JS PAGE: pastes texts, as CUDA, PyTorch and this library print them, into the search of the page
// (docs/troubleshooting.md), and compares the headings of the sections that fit with those expected.
const fs = require('fs')
const path = require('path')
const { normal, fitsHeading, fitterOf } = require(path.resolve(process.argv[2]))

// The sections of the page, with what the site has as code and as cells of tables.
const sections = []
let title = ''
for (const line of fs.readFileSync(process.argv[3], 'utf8').split('\n')) {
  const heading = line.match(/^#+ (.*)/)
  if (heading) {
    title = heading[1]
    sections.push({ heading: normal(title), body: '' })
  }
  if (sections.length) sections.at(-1).body += line + '\n'
}
for (const section of sections) {
  const code = [...section.body.matchAll(/`([^`]*)`/g)].map(match => match[1])
  const rows = [...section.body.matchAll(/^\|(.*)\|$/gm)].flatMap(match => match[1].split('|'))
  section.quotes = [...code, ...rows].map(normal)
  section.all = normal(section.body)
}
const found = words => {
  const text = normal(words)
  const fits = fitterOf(text, sections.flatMap(section => section.quotes))
  return sections.filter(section => fits(section.all, section.quotes) || fitsHeading(text, section.heading))
    .map(section => section.heading)
}

let failures = 0
const expect = (words, headings) => {
  const result = found(words)
  if (JSON.stringify(result) === JSON.stringify(headings.map(normal))) return
  ++failures
  console.log(`"${words}": expected ${JSON.stringify(headings)}; found ${JSON.stringify(result)}`)
}

const unsupported = '900 cudaErrorStreamCaptureUnsupported'
const invalidated = '901 cudaErrorStreamCaptureInvalidated'
expect('StreamRef::synchronize: cuStreamSynchronize returned 900 (cudaErrorStreamCaptureUnsupported): the call is not ' +
  'permitted while a stream is being captured', [unsupported])
expect('  call     cuStreamSynchronize returned cudaErrorStreamCaptureUnsupported (900)', [unsupported])
expect('CUDA error: operation not permitted when stream is capturing', [unsupported])
expect('CUDA error: operation failed due to a previous error during capture', [invalidated])
expect('CUDA error: no kernel image is available for execution on the device', ['209 cudaErrorNoKernelImageForDevice'])
expect('capture: the capture (mode global) failed with cudaErrorStreamCaptureInvalidated (901)', [invalidated])
expect('CUDAGraph::replay: 1 of the 3 inputs of the graph is dead: it reads or writes memory that was freed. Nothing ' +
  'was launched.', ['dead: it reads or writes memory that was freed'])
expect('cudaErrorStreamCaptureMerge', ['902 cudaErrorStreamCaptureMerge'])
expect('cuLaunchKernel returned 700', ['700 cudaErrorIllegalAddress'])
expect('cuMemAlloc returned 2', ['2 cudaErrorMemoryAllocation'])
expect('main.cu:12: CUDA error 1', ['1 cudaErrorInvalidValue'])
expect('  Could not find a package configuration file provided by "reprise" with\n  any of the following names:',
  ['Installation'])
expect('kernel.h:353:5: error: static assertion failed: a kernel is a function object without data, with one call ' +
  'operator that is const and no template', ['a kernel is a function object without data'])
for (const words of ['my_program: exited with code 1', 'make: *** [all] Error 1', 'command returned 2', 'note (1)'])
  expect(words, [])
expect('words of quixotic texts', [])
if (failures) process.exit(1)
