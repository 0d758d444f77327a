package inventory

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/amounts"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/fit"
)

// ProfileCount counts the MIG slices of one profile, as Kubernetes counts them.
type ProfileCount struct {
	// Profile is NVIDIA's name of the size, such as 3g.40gb.
	Profile string `json:"profile"`
	// Allocatable is what nodes offer, Used what pods ask of them, and Free what new pods could get: 0 on nodes that take none, and
	// without slices of GPUs that are not healthy.
	Allocatable int64 `json:"allocatable"`
	Used        int64 `json:"used"`
	Free        int64 `json:"free"`
}

// CountProfiles counts the slices that a node offers, and those that its pods ask for, sorted by profile.
func CountProfiles(node *fit.Node, pods []*corev1.Pod) []ProfileCount {
	var out []ProfileCount
	for name, amount := range node.Object.Status.Allocatable {
		if profile, ok := strings.CutPrefix(string(name), names.ResourceMIGPrefix); ok {
			out = append(out, ProfileCount{Profile: profile, Allocatable: amount.Value()})
		}
	}
	if len(out) == 0 {
		return nil
	}
	for _, pod := range pods {
		requests := amounts.Requests(pod)
		for i := range out {
			out[i].Used = amounts.Add(out[i].Used, resourceCount(requests, names.ResourceMIGPrefix+corev1.ResourceName(out[i].Profile)))
		}
	}
	for i := range out {
		if fit.IsOpen(node.Object) {
			out[i].Free = node.FreeSlices(out[i].Profile)
		}
	}
	sortProfiles(out)
	return out
}

func sortProfiles(all []ProfileCount) {
	slices.SortFunc(all, func(a, b ProfileCount) int { return cmp.Compare(a.Profile, b.Profile) })
}

// AddProfiles adds the slices of a node to those of its pool, sorted by profile.
func AddProfiles(sum, node []ProfileCount) []ProfileCount {
	for _, more := range node {
		i := slices.IndexFunc(sum, func(p ProfileCount) bool { return p.Profile == more.Profile })
		if i < 0 {
			sum = append(sum, ProfileCount{Profile: more.Profile})
			i = len(sum) - 1
		}
		sum[i].Allocatable = amounts.Add(sum[i].Allocatable, more.Allocatable)
		sum[i].Used = amounts.Add(sum[i].Used, more.Used)
		sum[i].Free = amounts.Add(sum[i].Free, more.Free)
	}
	sortProfiles(sum)
	return sum
}

// maxProfileCounts keeps of each profile what the node offers that has most of it.
func maxProfileCounts(most, node []ProfileCount) []ProfileCount {
	for _, offered := range node {
		i := slices.IndexFunc(most, func(p ProfileCount) bool { return p.Profile == offered.Profile })
		if i < 0 {
			most = append(most, ProfileCount{Profile: offered.Profile})
			i = len(most) - 1
		}
		most[i].Allocatable = max(most[i].Allocatable, offered.Allocatable)
	}
	sortProfiles(most)
	return most
}

// ProfilesOf are the MIG slices that a pod requests, sorted by profile.
func ProfilesOf(pod *corev1.Pod) []AskedProfile {
	var out []AskedProfile
	for name, amount := range amounts.Requests(pod) {
		if profile, ok := strings.CutPrefix(string(name), names.ResourceMIGPrefix); ok {
			out = append(out, AskedProfile{Profile: profile, Count: amount.Value()})
		}
	}
	slices.SortFunc(out, func(a, b AskedProfile) int { return cmp.Compare(a.Profile, b.Profile) })
	return out
}

// AskedProfile is how many MIG slices of a profile each pod of a job asks for.
type AskedProfile struct {
	Profile string `json:"profile"`
	Count   int64  `json:"count"`
}

// String writes it as in 2x 3g.40gb.
func (p AskedProfile) String() string {
	return strconv.FormatInt(p.Count, 10) + "x " + p.Profile
}
