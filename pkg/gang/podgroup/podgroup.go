// Package podgroup reads PodGroups as users write them: how many pods start together, and how they lie. It reads one object at a time, without its Go
// type and within bounds, so that a malformed PodGroup is one gang that waits, with a reason.
package podgroup

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"g8s.host/gpu-scheduler/pkg/amounts"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gang/placement"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// Bounds of a PodGroup. The CRD in manifests/crds has them as well, except maxTimeout, beyond which values have no further effect. A cluster may
// have a CRD without them, so they are enforced here too.
const (
	// maxTimeout is the longest that kube-scheduler lets a pod wait in Permit.
	maxTimeout = 15 * time.Minute
	// maxResources is how many resources one PodGroup may name: each is added up over all nodes.
	maxResources = 16
	// maxNameLength is the longest name of a resource, with its prefix.
	maxNameLength = 316
)

// Group is all that is kept of a PodGroup. A malformed PodGroup has a problem and is kept like any other, so that it is one gang that waits,
// with a reason.
type Group struct {
	metav1.ObjectMeta

	MinMember int
	// Timeout is how long members wait for the others, 0 for the profile's default.
	Timeout time.Duration
	// MinResources are in cores, bytes and units.
	MinResources map[corev1.ResourceName]float64
	// SeveralOwners says that pods of different controllers are members of one gang.
	SeveralOwners bool
	// Layout is how the members are placed in the topology of the cluster.
	Layout placement.Layout
	// Problem says which field is invalid and what to write instead; "" is none.
	Problem string
}

// Needs returns what the gang needs to begin.
func (g *Group) Needs() placement.Needs {
	return placement.Needs{MinMember: g.MinMember, MinResources: g.MinResources, Layout: g.Layout}
}

// HasSameRules reports whether two versions of a PodGroup have the same meaning for the scheduler.
func (g *Group) HasSameRules(other *Group) bool {
	return g.MinMember == other.MinMember && g.Timeout == other.Timeout && g.SeveralOwners == other.SeveralOwners &&
		g.Layout == other.Layout && g.Problem == other.Problem && maps.Equal(g.MinResources, other.MinResources)
}

// UnusableReason returns why a PodGroup, nil for a missing one, cannot form a gang, "" if it can.
func (g *Group) UnusableReason() string {
	switch {
	case g == nil:
		return string(reason.GangUnknown.Text)
	case g.Problem != "":
		return reason.GangUnusable.Text.FormatText(g.Problem)
	}
	return ""
}

// Read parses user input without its Go type, and always returns a result.
func Read(object *unstructured.Unstructured) *Group {
	g := &Group{
		ObjectMeta:    MetaOf(object),
		MinMember:     1,
		SeveralOwners: object.GetAnnotations()[names.AnnotationSeveralOwners] == names.True,
	}
	if g.Layout, g.Problem = ReadLayout(object.GetAnnotations()[names.AnnotationTopology]); g.Problem != "" {
		return g
	}
	spec, ok := object.Object["spec"].(map[string]any)
	if !ok && object.Object["spec"] != nil {
		g.Problem = "spec is no object"
		return g
	}
	g.Problem = g.readSpec(spec)
	return g
}

// MetaOf reduces the metadata of an object to the fields that are used.
func MetaOf(object *unstructured.Unstructured) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(),
		ResourceVersion: object.GetResourceVersion(), CreationTimestamp: object.GetCreationTimestamp(), Generation: object.GetGeneration(),
	}
}

// readSpec parses a spec and returns what is wrong with it, "" for nothing.
func (g *Group) readSpec(spec map[string]any) string {
	if value := spec["minMember"]; value != nil {
		members, ok := value.(int64)
		if !ok || members < 1 || members > placement.MaxMembers {
			return fmt.Sprintf("spec.minMember is %s, want a whole number from 1 to %d", describeValue(value), placement.MaxMembers)
		}
		g.MinMember = int(members)
	}
	if value := spec["scheduleTimeoutSeconds"]; value != nil {
		seconds, ok := value.(int64)
		if !ok || seconds < 0 {
			return fmt.Sprintf("spec.scheduleTimeoutSeconds is %s, want a whole number from 0 to %d", describeValue(value), int(maxTimeout.Seconds()))
		}
		// More never had an effect: kube-scheduler cuts it off.
		g.Timeout = time.Duration(min(seconds, int64(maxTimeout.Seconds()))) * time.Second
	}
	return g.readResources(spec["minResources"])
}

func (g *Group) readResources(value any) string {
	if value == nil {
		return ""
	}
	resources, ok := value.(map[string]any)
	if !ok {
		return "spec.minResources is " + describeValue(value) + ", want resources and amounts, such as nvidia.com/gpu: 16"
	}
	if len(resources) > maxResources {
		return fmt.Sprintf("spec.minResources has %d resources, want at most %d", len(resources), maxResources)
	}
	g.MinResources = make(map[corev1.ResourceName]float64, len(resources))
	for _, name := range slices.Sorted(maps.Keys(resources)) {
		if len(name) > maxNameLength {
			return fmt.Sprintf("spec.minResources names a resource of %d characters, want at most %d", len(name), maxNameLength)
		}
		amount, ok := parseQuantity(resources[name])
		if !ok {
			return fmt.Sprintf("spec.minResources.%s is %s, want an amount such as 500m, 8 or 64Gi", name, describeValue(resources[name]))
		}
		g.MinResources[corev1.ResourceName(name)] = amount
	}
	return ""
}

// writtenQuantity is the accepted syntax of an amount: that of Kubernetes, with bounded length and an exponent of at most two digits.
// Kubernetes' own arithmetic has no bounds; 1e99 is 0 to it.
var writtenQuantity = regexp.MustCompile(`^\+?([0-9]{1,18}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})(?:([KMGTPE]i|[numkMGTPE])|[eE]([+-]?[0-9]{1,2}))?$`)

// units are the factors of Kubernetes' suffixes.
var units = map[string]float64{
	"": 1, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
	"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50, "Ei": 1 << 60,
}

// parseQuantity parses an amount that is not negative.
func parseQuantity(value any) (float64, bool) {
	switch value := value.(type) {
	case int64:
		return float64(value), value >= 0
	case string:
		match := writtenQuantity.FindStringSubmatch(value)
		if match == nil {
			return 0, false
		}
		number, err := strconv.ParseFloat(match[1], 64)
		if err != nil {
			return 0, false
		}
		exponent := 0
		if match[3] != "" {
			exponent, err = strconv.Atoi(match[3])
		}
		return number * units[match[2]] * math.Pow10(exponent), err == nil
	}
	return 0, false
}

// maxShownLength bounds how much of a user's value is repeated in a message: it is written to each member.
const maxShownLength = 40

// describeValue formats a value of any size for a message.
func describeValue(value any) string {
	switch value := value.(type) {
	case string:
		return fmt.Sprintf("%.*q", maxShownLength, value)
	case int64, float64, bool:
		return fmt.Sprint(value)
	case []any:
		return "a list"
	}
	return "an object"
}

// IsCoveredBy reports whether room for enough members is room for the group's minResources: any members that are enough ask together for no less. That
// holds for what operators write there, the sum of their pods. Resources that no member asks for would keep a gang out after others had left for it.
func (g *Group) IsCoveredBy(m *placement.Members) bool {
	for name, amount := range g.MinResources {
		if sumOfLeast(name, slices.Concat(m.Placed, m.Waiting), g.MinMember) < amount {
			return false
		}
	}
	return true
}

// sumOfLeast adds up what the pods that ask for the least of a resource ask for.
func sumOfLeast(name corev1.ResourceName, pods []*corev1.Pod, count int) float64 {
	asked := make([]float64, len(pods))
	for i, pod := range pods {
		quantity := amounts.Requests(pod)[name]
		asked[i] = quantity.AsApproximateFloat64()
	}
	slices.Sort(asked)
	sum := 0.0
	for _, amount := range asked[:min(count, len(asked))] {
		sum += amount
	}
	return sum
}
