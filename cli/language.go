package cli

import (
	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/spelling"
)

// languageFlag is the value of --lang; empty if not given.
type languageFlag struct{ phrase.Language }

// String implements pflag.Value.
func (l *languageFlag) String() string { return string(l.Language) }

// Type implements pflag.Value.
func (l *languageFlag) Type() string { return "string" }

// Set implements pflag.Value.
func (l *languageFlag) Set(word string) error {
	if err := checkLanguage(word); err != nil {
		return err
	}
	l.Language = phrase.Language(word)
	return nil
}

func checkLanguage(word string) error {
	for _, known := range phrase.Languages() {
		if word == known {
			return nil
		}
	}
	known := phrase.Languages()
	return usageErrorf("%q is no language that gpuctl speaks%s: use %s or %s", word, spelling.DidYouMean(word, known), known[0], known[1])
}

// outputLanguage returns the language of messages: that of --lang, else of gpuctl's configuration, else of the environment.
func (f *Factory) outputLanguage() phrase.Language {
	if f.lang.Language != "" {
		return f.lang.Language
	}
	if config, err := readUserConfig(); err == nil && checkLanguage(config.Lang) == nil { // callers that use the rest report its errors
		return phrase.Language(config.Lang)
	}
	return f.IO.Language
}

func completeLanguages(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return phrase.Languages(), cobra.ShellCompDirectiveNoFileComp
}
