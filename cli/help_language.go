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

// exampleComment matches a comment in an example.
var exampleComment = regexp.MustCompile(`(?m)(\s#\s+)(.*)$`)

// translateHelp shows help in the language known after the flags are parsed: descriptions, flags, and comments in examples.
func translateHelp(f *Factory, root *cobra.Command) {
	show := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if language := f.outputLanguage(); language == phrase.Chinese {
			translateCommand(cmd, language)
		}
		if f.renameHint != nil {
			renameHelp(cmd, f.renameHint)
		}
		show(cmd, args)
	})
}

// translateLong translates a long text paragraph by paragraph, so that a paragraph shared by several commands is in the catalogue once.
func translateLong(language phrase.Language, long string) string {
	paragraphs := strings.Split(long, "\n\n")
	for i, paragraph := range paragraphs {
		key := paragraphKey(paragraph)
		if words := language.Translate(key); words != key {
			paragraphs[i] = wrapParagraphs(words)
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

// translateCommand translates the help of one command.
func translateCommand(cmd *cobra.Command, language phrase.Language) {
	cmd.Short = language.Translate(cmd.Short)
	cmd.Long = translateLong(language, cmd.Long)
	cmd.Example = exampleComment.ReplaceAllStringFunc(cmd.Example, func(text string) string {
		parts := exampleComment.FindStringSubmatch(text)
		return parts[1] + language.Translate(parts[2])
	})
	for _, sub := range cmd.Commands() {
		sub.Short = language.Translate(sub.Short)
	}
	for _, group := range cmd.Groups() {
		group.Title = language.Translate(group.Title)
	}
	ofFlag := func(flag *pflag.Flag) {
		if flag.Name == "help" { // cobra's own text, which contains the name of the command
			flag.Usage = language.Translate("Show this help")
		}
		flag.Usage = language.Translate(flag.Usage)
	}
	cmd.LocalFlags().VisitAll(ofFlag)
	cmd.InheritedFlags().VisitAll(ofFlag)
	var pairs []string
	for _, word := range helpWords {
		pairs = append(pairs, word, language.Translate(word))
	}
	cmd.SetUsageTemplate(strings.NewReplacer(pairs...).Replace(cmd.UsageTemplate()))
}
