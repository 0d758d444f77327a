package rejection

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/gang/phase"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// maxRefusals is how many different reasons are listed.
const maxRefusals = 3

// maxRefusalBytes is how much of a refusal is repeated on the pod, in bytes.
const maxRefusalBytes = 300

// SummarizeRefusals summarizes why nodes were refused, as kube-scheduler does: the most frequent reasons first. Some reasons are of the gang itself.
func SummarizeRefusals(refused fwk.NodeToStatusReader, nodes []string, own sets.Set[string]) string {
	if refused == nil {
		return ""
	}
	counts := map[string]int{}
	for _, node := range nodes {
		for _, why := range refused.Get(node).Reasons() {
			if !own.Has(why) {
				counts[why]++
			}
		}
	}
	words := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) })
	words = words[:min(len(words), maxRefusals)]
	for i, why := range words {
		words[i] = strconv.Itoa(counts[why]) + " " + why
	}
	return ShortenText(strings.Join(words, ", "))
}

// ReadRefusal returns the refusal that a leader wrote on a pod: its backoff, and the words of the API server.
func ReadRefusal(pod *corev1.Pod) (backoff phase.Backoff, words string, ok bool) {
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type != corev1.PodScheduled || c.Status == corev1.ConditionTrue {
			continue
		}
		values, found := reason.PlaceRefused.ValuesIn(c.Message)
		if !found {
			break
		}
		var unread, wrong error
		backoff.Until, unread = time.Parse(time.RFC3339, values[0])
		backoff.Duration, wrong = time.ParseDuration(values[1])
		backoff.Duration = min(backoff.Duration, phase.MaxBackoff)
		return backoff, ShortenText(values[2]), unread == nil && wrong == nil && backoff.Duration > 0
	}
	return phase.Backoff{}, "", false
}

// ShortenText puts a refusal on one line of bounded length.
func ShortenText(words string) string {
	words = strings.Join(strings.Fields(words), " ")
	if len(words) > maxRefusalBytes {
		words = strings.ToValidUTF8(words[:maxRefusalBytes], "") + " ..."
	}
	return strings.TrimRight(words, " .,")
}

// IsSameToPolicies reports whether a pod is unchanged as far as admission policies can see.
func IsSameToPolicies(a, b *corev1.Pod) bool {
	return a.Generation == b.Generation && maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations)
}
