package submit

import (
	"context"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// requestsPrefix is the prefix under which quotas count extended resources.
const requestsPrefix = "requests."

// boundMIGSlices makes a quota that bounds GPUs also bound MIG slices: it sets to zero the profiles that the quota does not name and that nodes
// offer, or that the existing quota (present) bounds. Kubernetes counts each profile as a separate resource, so a namespace without GPUs could
// otherwise use all slices. A user who may not read nodes bounds only the already bounded profiles.
func (c *Client) boundMIGSlices(ctx context.Context, quota *workload.Quota, present []corev1.ResourceQuota, opts QuotaOptions) error {
	if !slices.ContainsFunc(quota.Namespaces, func(n workload.NamespaceQuota) bool { return n.GPU != nil }) {
		return nil
	}
	nodes, err := c.Nodes(ctx)
	if apierrors.IsForbidden(err) {
		reportNote(opts, phrase.Textf("you may not list nodes, so MIG slices that the quota does not name may be unbounded"))
	} else if err != nil {
		return phrase.Errorf("reading which MIG slices there are: %w", err)
	}
	profiles := knownProfiles(nodes, present)
	for i := range quota.Namespaces {
		if added := quota.Namespaces[i].DenyOtherProfiles(profiles); len(added) > 0 {
			reportNote(opts, phrase.Textf("namespace %s may have no MIG slices of %s, as its gpu is bounded: mig of the quota allows some",
				quota.Namespaces[i].Namespace, strings.Join(added, ", ")))
		}
	}
	return nil
}

func reportNote(opts QuotaOptions, sentence phrase.Text) {
	if opts.Note != nil {
		opts.Note(sentence)
	}
}

// knownProfiles returns the MIG profiles that nodes offer or quotas bound, sorted.
func knownProfiles(nodes []corev1.Node, quotas []corev1.ResourceQuota) []string {
	found := map[string]bool{}
	note := func(resources corev1.ResourceList, prefix string) {
		for name := range resources {
			if profile, ok := strings.CutPrefix(string(name), prefix+names.ResourceMIGPrefix); ok {
				found[profile] = true
			}
		}
	}
	for i := range nodes {
		note(nodes[i].Status.Capacity, "")
		note(nodes[i].Status.Allocatable, "")
	}
	for i := range quotas {
		note(quotas[i].Spec.Hard, requestsPrefix)
	}
	return slices.Sorted(maps.Keys(found))
}
