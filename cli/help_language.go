package cli

import (
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// helpWords are the words of cobra's help template.
var helpWords = []string{
	"Usage:", "Aliases:", "Examples:", "Available Commands:", "Additional Commands:", "Global Flags:", "Flags:",
	`Use "`, "for more information about a command.",
}

// comment matches a comment in an example.
var comment = regexp.MustCompile(`(?m)(\s#\s+)(.*)$`)

// translateHelp shows help in the language known after the flags are parsed: descriptions, flags, and comments in examples.
func translateHelp(f *Factory, root *cobra.Command) {
	show := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if language := f.language(); language == phrase.Chinese {
			translate(cmd, language)
		}
		if f.renamed != nil {
			renameHelp(cmd, f.renamed)
		}
		show(cmd, args)
	})
}

// longIn translates a long text paragraph by paragraph, so that a paragraph shared by several commands is in the catalogue once.
func longIn(language phrase.Language, long string) string {
	paragraphs := strings.Split(long, "\n\n")
	for i, paragraph := range paragraphs {
		key := paragraphKey(paragraph)
		if words := language.Words(key); words != key {
			paragraphs[i] = fitted(words)
		}
	}
	return strings.Join(paragraphs, "\n\n")
}

// paragraphKey is the key of a paragraph in the catalogue: its words joined by single blanks, unless it contains lines that begin with blanks.
func paragraphKey(paragraph string) string {
	if strings.Contains(paragraph, "\n  ") {
		return paragraph
	}
	return strings.Join(strings.Fields(paragraph), " ")
}

// translate translates the help of one command.
func translate(cmd *cobra.Command, language phrase.Language) {
	cmd.Short = language.Words(cmd.Short)
	cmd.Long = longIn(language, cmd.Long)
	cmd.Example = comment.ReplaceAllStringFunc(cmd.Example, func(text string) string {
		parts := comment.FindStringSubmatch(text)
		return parts[1] + language.Words(parts[2])
	})
	for _, sub := range cmd.Commands() {
		sub.Short = language.Words(sub.Short)
	}
	for _, group := range cmd.Groups() {
		group.Title = language.Words(group.Title)
	}
	ofFlag := func(flag *pflag.Flag) {
		if flag.Name == "help" { // cobra's own text, which contains the name of the command
			flag.Usage = language.Words("Show this help")
		}
		flag.Usage = language.Words(flag.Usage)
	}
	cmd.LocalFlags().VisitAll(ofFlag)
	cmd.InheritedFlags().VisitAll(ofFlag)
	var pairs []string
	for _, word := range helpWords {
		pairs = append(pairs, word, language.Words(word))
	}
	cmd.SetUsageTemplate(strings.NewReplacer(pairs...).Replace(cmd.UsageTemplate()))
}
