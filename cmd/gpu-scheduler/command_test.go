package main

import (
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
