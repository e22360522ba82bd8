// SPDX-License-Identifier: Apache-2.0
#include "reprise/cache_key.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "reprise/error.h"
#include "text/demangle.h"
#include "text/format.h"

namespace reprise {

std::uint64_t CacheKey::hash() const noexcept {
  std::uint64_t hash = words_;
  for (std::size_t i = 0; i < words_; ++i) {
    hash = (hash ^ word(i)) * 0x9E37'79B9'7F4A'7C15;
    hash ^= hash >> 32;
  }
  return hash;
}

[[gnu::hot]] bool CacheKey::same(const CacheKey& other) const noexcept {
  if (words_ != other.words_ || fields_ != other.fields_) return false;
  const std::size_t few = std::min(words_, few_.size());
  for (std::size_t i = 0; i < few; ++i)
    if (few_[i] != other.few_[i]) return false;
  return (words_ == few || more_ == other.more_) && types_ == other.types_;
}

void CacheKey::refuse_null_text() {
  throw UsageError("CacheKey expected a text; found a null pointer. Pass an empty text where there is none.");
}

// Appends the length of the text, then its bytes, the last word padded with zeros.
void CacheKey::append_text(Kind kind, std::string_view text) {
  append(kind, text.size());
  for (std::size_t at = 0; at < text.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, text.data() + at, std::min(text.size() - at, sizeof bytes));
    push(bytes);
  }
}

std::string CacheKey::field_text(std::size_t& at) const {
  const auto kind = static_cast<Kind>(word(at++));
  const std::uint64_t value = word(at++);
  switch (kind) {
    case Kind::integer:
      return text::format("{}", static_cast<std::int64_t>(value));
    case Kind::large:
      return text::format("{}", value);
    case Kind::boolean:
      return value != 0 ? "true" : "false";
    case Kind::character:
      return value >= ' ' && value <= '~' ? std::string(1, static_cast<char>(value))
                                          : text::format("'\\x{:02x}'", value);
    case Kind::single:
      return text::format("{}f", std::bit_cast<float>(static_cast<std::uint32_t>(value)));
    case Kind::twice:
      return text::format("{}", std::bit_cast<double>(value));
    case Kind::text:
    case Kind::type: {
      std::string found(value, '\0');
      for (std::size_t i = 0; i < value; i += sizeof(std::uint64_t)) {
        const std::uint64_t bytes = word(at++);
        std::memcpy(found.data() + i, &bytes, std::min(value - i, sizeof bytes));
      }
      return kind == Kind::type ? text::demangle(found.c_str()) : found;
    }
    case Kind::range: {
      std::vector<std::string> elements;
      for (std::uint64_t i = 0; i < value; ++i) elements.push_back(field_text(at));
      return "[" + text::join(elements, ", ") + "]";
    }
  }
  return "?";
}

std::vector<std::string> CacheKey::field_texts() const {
  std::vector<std::string> texts;
  std::size_t at = 0;
  for (std::size_t field = 0; field < fields_; ++field) texts.push_back(field_text(at));
  return texts;
}

std::string CacheKey::str(std::span<const std::string> names) const {
  std::vector<std::string> texts = field_texts();
  for (std::size_t i = 0; i < std::min(texts.size(), names.size()); ++i)
    if (!names[i].empty()) texts[i] = names[i] + "=" + texts[i];
  return "(" + text::join(texts, ", ") + ")";
}

}  // namespace reprise
