package oracle

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// member is one of those that a Job wants to complete once.
type member struct {
	job, index string
}

// memberOf says which member of which Job a pod stands for. A Job that is not indexed has one.
func memberOf(pod *corev1.Pod) (member, bool) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != "Job" {
		return member{}, false
	}
	return member{job: string(owner.UID), index: pod.Annotations[batchv1.JobCompletionIndexAnnotation]}, true
}

// stands says whether a pod does its work, or is about to: it has a node, has not ended, and was not told to leave.
func stands(kind watch.EventType, pod *corev1.Pod) bool {
	return kind != watch.Deleted && pod.Spec.NodeName != "" && !finished(pod) && pod.DeletionTimestamp == nil
}

// Doubled returns where two pods stood for one member of a Job, at the same time or one after the other has succeeded: its work
// was done twice.
func Doubled(h History) []Violation {
	standing, done := map[member]map[string]bool{}, map[member]string{}
	var violations []Violation
	for i := range h {
		pod := h[i].Pod
		if pod == nil {
			continue
		}
		of, isMember := memberOf(pod)
		if !isMember {
			continue
		}
		if pod.Status.Phase == corev1.PodSucceeded {
			done[of] = nameOf(pod)
		}
		if !stands(h[i].Type, pod) {
			delete(standing[of], nameOf(pod))
			continue
		}
		if standing[of][nameOf(pod)] {
			continue
		}
		if standing[of] == nil {
			standing[of] = map[string]bool{}
		}
		others := slices.Sorted(maps.Keys(standing[of]))
		if before, twice := done[of]; twice {
			others = append(others, before)
		}
		if len(others) > 0 {
			violations = append(violations, Violation{Revision: h[i].Revision, Rule: Twice, Node: pod.Spec.NodeName, Pods: append(others, nameOf(pod))})
		}
		standing[of][nameOf(pod)] = true
	}
	return violations
}

// Tear is a time in which a gang had a part of its members on nodes and waited for others.
type Tear struct {
	Gang string // namespace/name of its PodGroup
	// From and To are the revisions at which it began and ended, and Lasted is the time between them as it was seen.
	From, To int64
	Lasted   time.Duration
}

func (t Tear) String() string {
	return fmt.Sprintf("gang %s was half placed for %s, from revision %d to %d", t.Gang, t.Lasted.Round(time.Millisecond), t.From, t.To)
}

// Tears returns each time in which a gang was half placed, the longest first. Members says how many each gang has, by
// namespace/name of its PodGroup; others are not looked at. A member that has succeeded is missed by nobody, and a gang of which
// all leave at once is half placed for as long as they take.
func Tears(h History, members map[string]int) []Tear {
	gangs := map[string]*gang{}
	var tears []Tear
	for i := range h {
		pod := h[i].Pod
		if pod == nil {
			continue
		}
		name := pod.Namespace + "/" + pod.Labels[names.LabelPodGroup]
		if members[name] == 0 {
			continue
		}
		if gangs[name] == nil {
			gangs[name] = &gang{stand: map[string]bool{}, succeeded: map[string]bool{}}
		}
		g := gangs[name]
		g.see(h[i].Type, pod)
		switch half := g.half(members[name]); {
		case half && g.since == nil:
			g.since = &h[i]
		case !half && g.since != nil:
			tears = append(tears, tear(name, g.since, &h[i]))
			g.since = nil
		}
	}
	for name, g := range gangs {
		if g.since != nil {
			tears = append(tears, tear(name, g.since, &h[len(h)-1]))
		}
	}
	slices.SortFunc(tears, func(a, b Tear) int { return cmp.Or(cmp.Compare(b.Lasted, a.Lasted), cmp.Compare(a.From, b.From)) })
	return tears
}

func tear(gang string, from, to *Event) Tear {
	return Tear{Gang: gang, From: from.Revision, To: to.Revision, Lasted: to.Seen.Sub(from.Seen)}
}

// gang is its members by the index that they have in their Job, or by their names.
type gang struct {
	stand, succeeded map[string]bool
	since            *Event // nil while it is whole, or has no place at all
}

func (g *gang) see(kind watch.EventType, pod *corev1.Pod) {
	index := cmp.Or(pod.Annotations[batchv1.JobCompletionIndexAnnotation], pod.Name)
	if pod.Status.Phase == corev1.PodSucceeded {
		g.succeeded[index] = true
	}
	if stands(kind, pod) {
		g.stand[pod.Name] = true
	} else {
		delete(g.stand, pod.Name)
	}
}

func (g *gang) half(members int) bool {
	return len(g.stand) > 0 && len(g.stand)+len(g.succeeded) < members
}
