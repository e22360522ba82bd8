// SPDX-License-Identifier: Apache-2.0
// A search within a page: fills <div class="find-in-page"></div> with a field. Typed words, or a whole error text, leave
// the sections, rows of tables and paragraphs that fit.
//
// An error text fits a heading whose words are in it, in their order: the heading may have `…` for what is filled in. It
// fits a heading such as "900 cudaErrorStreamCaptureUnsupported" if it has the name, or the number as that of an error:
// one below 100, which is the exit code of programs as well, only as that of CUDA. It fits a section that quotes a part
// of it, as code or in a table. Other texts fit what has all of their words.

const normal = text => text.toLowerCase().replace(/[`"'\s]+/g, ' ').trim()

const hasParts = (text, heading) => {
  let from = 0
  return heading.split('…').map(part => part.trim()).filter(part => part).every(part => {
    const at = text.indexOf(part, from)
    from = at + part.length
    return at >= 0
  })
}

const hasCode = (text, heading) => {
  const [, number, name] = heading.match(/^([0-9]+) (cudaerror[a-z]+)$/) || []
  if (!number) return false
  const places = number < 100
    ? `\\bcu[a-z]+ returned ${number}\\b|\\bcuda (?:driver )?error:? ${number}\\b`
    : `\\(${number}\\)|\\b(?:returned|error|code|with) (?:code )?${number}\\b`
  return new RegExp(`\\b${name}\\b|${places}`).test(text)
}

const fitsHeading = (text, heading) => hasCode(text, heading) || (heading.length >= 10 && hasParts(text, heading))

// Quotes that are too short are words of other texts, too.
const isQuote = text => text.length >= 13 && text.includes(' ')

// Returns a function that is true for what fits `text`: words, and the quotes among them. Of the quotes of the page that
// are in the text, one within another does not count.
const fitterOf = (text, quotes) => {
  const words = text.split(' ')
  const found = quotes.filter(quote => isQuote(quote) && text.includes(quote))
  const longest = new Set(found.filter(quote => !found.some(other => other !== quote && other.includes(quote))))
  return (all, own) => words.every(word => all.includes(word)) || own.some(quote => longest.has(quote))
}

const quotesOf = element => [...element.querySelectorAll('code, td')].map(quote => normal(quote.textContent))

// The parts of the page that are shown or hidden as one: a heading with what follows it up to the next one, or a row.
const partsOf = contents => {
  const parts = []
  let part = null
  for (const element of contents.children) {
    if (element.matches('.find-in-page')) continue
    if (element.matches('h1, h2, h3')) {
      part = { heading: normal(element.textContent), level: Number(element.tagName[1]), elements: [] }
      parts.push(part)
    }
    if (part) part.elements.push(element)
  }
  return parts
}

const find = (contents, words) => {
  const text = normal(words)
  const parts = partsOf(contents)
  // What stands before the first heading would push what fits off the screen.
  for (const element of contents.children) {
    if (element.matches('h1, h2, h3')) break
    if (!element.matches('.find-in-page')) element.classList.toggle('find-hidden', text !== '')
  }
  const fits = fitterOf(text, parts.flatMap(part => part.elements.flatMap(quotesOf)))
  let count = 0
  let chapter = null
  contents.querySelectorAll('code.find-hit').forEach(code => code.classList.remove('find-hit'))
  for (const part of parts) {
    const all = normal(part.elements.map(element => element.textContent).join(' '))
    const shown = text === '' || fits(all, part.elements.flatMap(quotesOf)) || fitsHeading(text, part.heading)
    part.elements.forEach(element => element.classList.toggle('find-hidden', !shown))
    if (part.level === 1) chapter = part
    else if (shown && chapter) chapter.elements[0].classList.remove('find-hidden')
    if (!shown || text === '') {
      part.elements.forEach(each => each.querySelectorAll('tr').forEach(row => row.classList.remove('find-hidden')))
      continue
    }
    ++count
    for (const element of part.elements) {
      const rows = [...element.querySelectorAll('tr')].filter(row => row.querySelector('td'))
      const fitting = rows.filter(row => fits(normal(row.textContent), quotesOf(row)))
      rows.forEach(row => row.classList.toggle('find-hidden', fitting.length > 0 && !fitting.includes(row)))
      element.querySelectorAll('code').forEach(code => {
        if (text.length > 2 && normal(code.textContent).includes(text)) code.classList.add('find-hit')
      })
    }
  }
  if (text === '') return ''
  if (count === 0) return 'No section fits: try fewer words of it, without names and numbers'
  return count + (count === 1 ? ' section fits' : ' sections fit')
}

const fillPlaces = () => {
  document.querySelectorAll('.find-in-page').forEach(place => {
    const field = document.createElement('input')
    field.type = 'search'
    field.placeholder = place.dataset.placeholder || 'Words to look for in this page'
    field.setAttribute('aria-label', field.placeholder)
    const result = document.createElement('output')
    place.replaceChildren(field, result)
    const contents = document.querySelector('div.contents > div.textblock') || document.querySelector('div.contents')
    field.addEventListener('input', () => { result.textContent = find(contents, field.value) })
    const words = new URLSearchParams(location.search).get('find')
    if (words) {
      field.value = words
      result.textContent = find(contents, words)
    }
  })
}

if (typeof document !== 'undefined') document.addEventListener('DOMContentLoaded', fillPlaces)
if (typeof module !== 'undefined') module.exports = { normal, fitsHeading, fitterOf } // for the tests
