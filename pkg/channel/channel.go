// Package channel decides which channels the jobs of a namespace may notify of their end. A channel is a name: its URL is a secret of the
// administrators that only gpu-controller reads. This package contains nothing secret.
package channel

import (
	"slices"
	"strings"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// everywhere stands for all namespaces.
const everywhere = "*"

// AllowedChannels returns the channels of a namespace according to the administrators' policy, sorted.
func AllowedChannels(policy map[string]string, namespace string) []string {
	var out []string
	for key, namespaces := range policy {
		name, ok := strings.CutPrefix(key, names.PolicyChannel)
		if !ok || name == "" {
			continue
		}
		if all := strings.Fields(namespaces); slices.Contains(all, namespace) || slices.Contains(all, everywhere) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// RefusalReason returns why the jobs of a namespace may not notify a channel; nothing if they may. It does not reveal whether other namespaces have the
// channel.
func RefusalReason(policy map[string]string, namespace, name string) phrase.Text {
	allowed := AllowedChannels(policy, namespace)
	switch {
	case slices.Contains(allowed, name):
		return nil
	case len(allowed) == 0:
		return phrase.Textf("there is no channel %q for jobs of namespace %s, and no other: administrators set them up (docs/operations.md)", name, namespace)
	}
	return phrase.Textf("there is no channel %q for jobs of namespace %s: those that there are: %s", name, namespace, strings.Join(allowed, ", "))
}
