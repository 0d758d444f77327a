package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"g8s.host/gpu-scheduler/cli/monospace"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/test/golden"
)

// referenceFolder holds a page for each command.
const referenceFolder = "../docs/cli"

// TestReferencePages compares docs/cli with the commands: -update writes it.
func TestReferencePages(t *testing.T) {
	streams, _, _ := TestIOStreams("")
	want := map[string]string{}
	collectPages(t, newRootCmd(NewFactory(streams), "gpuctl"), want)
	if golden.Update() {
		writePages(t, want)
	}
	entries, err := os.ReadDir(referenceFolder)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(referenceFolder, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		got[entry.Name()] = string(text)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/cli is not what the commands say, run make generate (-want +got):\n%s", diff)
	}
}

func collectPages(t *testing.T, command *cobra.Command, pages map[string]string) {
	t.Helper()
	command.DisableAutoGenTag = true
	command.InitDefaultHelpCmd()
	var page bytes.Buffer
	if err := doc.GenMarkdown(command, &page); err != nil {
		t.Fatal(err)
	}
	pages[strings.ReplaceAll(command.CommandPath(), " ", "_")+".md"] = page.String()
	for _, sub := range command.Commands() {
		if sub.IsAvailableCommand() && !sub.IsAdditionalHelpTopicCommand() {
			collectPages(t, sub, pages)
		}
	}
}

func writePages(t *testing.T, pages map[string]string) {
	t.Helper()
	if err := os.RemoveAll(referenceFolder); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(referenceFolder, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range pages {
		if err := os.WriteFile(filepath.Join(referenceFolder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEveryCommandHelps asks every command for what a user needs to know of it, in lines that fit a terminal.
func TestEveryCommandHelps(t *testing.T) {
	for _, language := range []phrase.Language{phrase.English, phrase.Chinese} {
		everyCommandHelps(t, language)
	}
}

func everyCommandHelps(t *testing.T, language phrase.Language) {
	streams, _, _ := TestIOStreams("")
	streams.Language = language
	var check func(*cobra.Command)
	check = func(command *cobra.Command) {
		if command.Short == "" || command.Example == "" && !command.HasSubCommands() {
			t.Errorf("%s has no short help or no example", command.CommandPath())
		}
		var help bytes.Buffer
		command.SetOut(&help)
		if err := command.Help(); err != nil {
			t.Errorf("%s: %v", command.CommandPath(), err)
		}
		for line := range strings.Lines(help.String()) {
			if monospace.Columns(strings.TrimRight(line, "\n")) > helpWidth {
				t.Errorf("%s: a line of its help has more than %d columns: %s", command.CommandPath(), helpWidth, line)
			}
		}
		for _, sub := range command.Commands() {
			check(sub)
		}
	}
	check(newRootCmd(NewFactory(streams), "gpuctl"))
}
