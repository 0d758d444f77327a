package command

import (
	"testing"
	"time"

	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
)

// TestRetriesAreTakenFromTheQueue: kube-scheduler's own never come, and ours come when its flag says.
func TestRetriesAreTakenFromTheQueue(t *testing.T) {
	for given, want := range map[string]time.Duration{"": 5 * time.Minute, "90s": 90 * time.Second, "0s": time.Second} {
		o := options.NewOptions()
		if given != "" {
			if err := o.Flags.FlagSet("deprecated").Set("pod-max-in-unschedulable-pods-duration", given); err != nil {
				t.Fatal(err)
			}
		}
		if got := takeRetries(o); got != want {
			t.Errorf("with %q pods are tried again after %s, want %s", given, got, want)
		}
		if left := o.Deprecated.PodMaxInUnschedulablePodsDuration; left < 100*365*24*time.Hour {
			t.Errorf("with %q kube-scheduler tries them again after %s, too", given, left)
		}
	}
}
