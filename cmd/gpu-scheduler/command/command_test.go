package command

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// TestEveryFlagOfKubeSchedulerIsThere compares names and defaults: the command is put together here, and Kubernetes may
// add to its own.
func TestEveryFlagOfKubeSchedulerIsThere(t *testing.T) {
	ours := newCommand().Flags()
	count := 0
	app.NewSchedulerCommand().Flags().VisitAll(func(stock *pflag.Flag) {
		count++
		flag := ours.Lookup(stock.Name)
		if flag == nil {
			t.Errorf("--%s is missing", stock.Name)
			return
		}
		want := []string{stock.DefValue, stock.Shorthand, stock.Value.Type()}
		if diff := cmp.Diff(want, []string{flag.DefValue, flag.Shorthand, flag.Value.Type()}); diff != "" {
			t.Errorf("--%s: default, short name, type (-want +got):\n%s", stock.Name, diff)
		}
	})
	if count < 40 {
		t.Errorf("compared %d flags, so the comparison proves nothing", count)
	}
}

// TestRunbooksNameCommands tries each command of this program that a runbook names.
func TestRunbooksNameCommands(t *testing.T) {
	pages, err := filepath.Glob("../../../docs/runbooks/*.md")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, quoted := range regexp.MustCompile("`gpu-scheduler\\s([^`]+)`").FindAllSubmatch(text, -1) {
			count++
			root, words := newCommand(), strings.Fields(string(quoted[1]))
			command, rest, err := root.Find(words)
			if err != nil || command == root || command.HasSubCommands() {
				t.Errorf("%s: gpu-scheduler has no command %q: %v", page, words, err)
			} else if err := command.ParseFlags(rest); err != nil {
				t.Errorf("%s: %q: %v", page, words, err)
			}
		}
	}
	if count == 0 {
		t.Error("the runbooks name no command, so the test proves nothing")
	}
}
