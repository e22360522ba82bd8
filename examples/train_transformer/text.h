// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace train_transformer {

/// Sentences of a small grammar, in which verbs agree with their subjects: "two cats see the ball." The same for the
/// same seed on every machine.
/// \param characters how long the text is.
std::string write_text(std::size_t characters, std::uint32_t seed);

/// How many words a text has, and how many of them the grammar has.
struct Words {
  int all = 0, known = 0;
};
Words count_words(const std::string& text);

/// The characters of a text, each with a number.
class Alphabet {
 public:
  explicit Alphabet(const std::string& text);

  std::int64_t size() const { return static_cast<std::int64_t>(characters_.size()); }
  /// The numbers of the characters of a text, as int64 on the CPU. \throws std::runtime_error for another character.
  torch::Tensor encode(const std::string& text) const;
  char character(std::int64_t number) const { return characters_.at(static_cast<std::size_t>(number)); }

 private:
  std::string characters_;
};

}  // namespace train_transformer
