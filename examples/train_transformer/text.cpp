// SPDX-License-Identifier: Apache-2.0
#include "text.h"

#include <algorithm>
#include <cctype>
#include <random>
#include <set>
#include <stdexcept>
#include <vector>

namespace train_transformer {
namespace {

using Choice = std::vector<std::string>;

const Choice singular_articles = {"a", "the", "this", "every"}, plural_articles = {"two", "the", "these", "many"};
const Choice adjectives = {"small", "old", "red", "quiet", "happy"};
const Choice nouns = {"cat", "dog", "bird", "child", "ball", "tree"};
const Choice plural_nouns = {"cats", "dogs", "birds", "children", "balls", "trees"};
const Choice verbs = {"sees", "likes", "finds", "follows"}, plural_verbs = {"see", "like", "find", "follow"};
const Choice places = {"under", "behind", "near"};
const Choice conjunctions = {"and", "because", "while"};

class Writer {
 public:
  explicit Writer(std::uint32_t seed) : random_(seed) {}

  void sentence() {
    clause();
    if (below(3) == 0) {
      add(conjunctions);
      clause();
    }
    text_ += '.';
  }
  const std::string& text() const { return text_; }

 private:
  // The distributions of the standard library differ between implementations.
  std::uint32_t below(std::uint32_t limit) { return static_cast<std::uint32_t>(random_() % limit); }

  void add(const Choice& words) {
    if (!text_.empty()) text_ += ' ';
    text_ += words[below(static_cast<std::uint32_t>(words.size()))];
  }
  void things(bool plural) {
    add(plural ? plural_articles : singular_articles);
    if (below(2) == 0) add(adjectives);
    add(plural ? plural_nouns : nouns);
  }
  void clause() {
    const bool plural = below(2) == 0;
    things(plural);
    add(plural ? plural_verbs : verbs);
    things(below(2) == 0);
    if (below(3) == 0) {
      add(places);
      things(below(2) == 0);
    }
  }

  std::mt19937 random_;
  std::string text_;
};

std::set<std::string> vocabulary() {
  std::set<std::string> words;
  for (const Choice* each : {&singular_articles, &plural_articles, &adjectives, &nouns, &plural_nouns, &verbs,
                             &plural_verbs, &places, &conjunctions})
    words.insert(each->begin(), each->end());
  return words;
}

}  // namespace

std::string write_text(std::size_t characters, std::uint32_t seed) {
  Writer writer(seed);
  while (writer.text().size() < characters) writer.sentence();
  return writer.text().substr(0, characters);
}

Words count_words(const std::string& text) {
  const std::set<std::string> known = vocabulary();
  Words words;
  std::string word;
  for (const char each : text + ' ') {
    if (std::isalpha(static_cast<unsigned char>(each)) != 0) {
      word += each;
      continue;
    }
    if (word.empty()) continue;
    ++words.all;
    words.known += known.contains(word) ? 1 : 0;
    word.clear();
  }
  return words;
}

Alphabet::Alphabet(const std::string& text) {
  const std::set<char> each(text.begin(), text.end());
  characters_.assign(each.begin(), each.end());
}

torch::Tensor Alphabet::encode(const std::string& text) const {
  std::vector<std::int64_t> numbers;
  numbers.reserve(text.size());
  for (const char each : text) {
    const std::size_t at = characters_.find(each);
    if (at == std::string::npos) throw std::runtime_error(std::string("the text has no character ") + each);
    numbers.push_back(static_cast<std::int64_t>(at));
  }
  return torch::tensor(numbers);
}

}  // namespace train_transformer
