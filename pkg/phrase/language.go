package phrase

import (
	"embed"
	"io/fs"
	"maps"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

// Language is a language that our programs support.
type Language string

// The languages. The zero value is English, too.
const (
	English Language = "en"
	Chinese Language = "zh"
)

// Languages returns all languages.
func Languages() []string { return []string{string(Chinese), string(English)} }

// ParseLocale returns the language of a POSIX locale, such as zh_CN.UTF-8: English if it names no supported language, or an encoding that cannot show
// it. Readers of zh_TW get the simplified characters of zh, which they read better than English.
func ParseLocale(locale string) Language {
	locale, _, _ = strings.Cut(locale, "@")
	name, encoding, _ := strings.Cut(locale, ".")
	name, _, _ = strings.Cut(strings.ReplaceAll(name, "-", "_"), "_")
	if encoding != "" && !strings.EqualFold(strings.ReplaceAll(encoding, "-", ""), "utf8") {
		return English
	}
	if strings.EqualFold(name, string(Chinese)) {
		return Chinese
	}
	return English
}

// FromEnvironment returns the message language that the environment requests: the first variable that is set decides, as in POSIX.
func FromEnvironment(getenv func(string) string) Language {
	for _, name := range []string{"LC_ALL", "LC_MESSAGES", "LANG"} {
		if locale := getenv(name); locale != "" {
			return ParseLocale(locale)
		}
	}
	return English
}

//go:embed zh
var files embed.FS

// chineseCatalogue is the catalogue of zh, loaded on first use. An unreadable file has no words, so that its texts appear in English: the tests read
// each file.
var chineseCatalogue = sync.OnceValue(func() map[string]string {
	out := map[string]string{}
	names, err := fs.Glob(files, "zh/*.yaml")
	if err != nil {
		return out
	}
	for _, name := range names {
		words := map[string]string{}
		if data, err := files.ReadFile(name); err == nil && yaml.Unmarshal(data, &words) == nil {
			maps.Copy(out, words)
		}
	}
	return out
})

// Translate returns the translation of a format, or of a text without values; the English text if there is none.
func (l Language) Translate(english string) string {
	if l == Chinese {
		if words := chineseCatalogue()[english]; words != "" {
			return words
		}
	}
	return english
}
