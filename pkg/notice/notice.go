// Package notice says what a pod is told that is to leave for another one and has asked for time to save its work, and whether
// it has answered.
package notice

import (
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

const (
	// longest is how many characters of a notice are read: it lies on a pod, which users write.
	longest = 2048
	// longestTime is how many characters of a time are.
	longestTime = 64
)

// Notice is what a pod is told, on its annotation.
type Notice struct {
	// At is when it was told, Until by when it is to leave at the latest.
	At    time.Time `json:"at"`
	Until time.Time `json:"until"`
	For   Preemptor `json:"for"`
	// Awaited says that nobody leaves before this pod has saved its work, or its time is over. The others leave with those.
	Awaited bool `json:"awaited,omitempty"`
	// Saved is when it had saved its work last by then, in its own words.
	Saved string `json:"saved,omitempty"`
}

// Preemptor is who others leave for: a pod, or a gang.
type Preemptor struct {
	Namespace string `json:"namespace"`
	// Pod is the name of the pod, or of a member of the gang.
	Pod string `json:"pod"`
	// Group is the PodGroup of a gang, "" for a pod alone.
	Group string `json:"group,omitempty"`
	// UID is the pod's, or of a gang that of who made its members.
	UID types.UID `json:"uid,omitempty"`
}

// Key tells one preemptor from all others.
type Key struct {
	Namespace, Group string
	UID              types.UID
}

// Key of a preemptor: the gang stays the same when a member is made anew.
func (p Preemptor) Key() Key { return Key{Namespace: p.Namespace, Group: p.Group, UID: p.UID} }

// Of is the notice on a pod, false where there is none that can be read.
func Of(pod *corev1.Pod) (Notice, bool) {
	var n Notice
	text := pod.Annotations[names.AnnotationPreemptionNotice]
	if text == "" || len(text) > longest || json.Unmarshal([]byte(text), &n) != nil || n.For.Pod == "" || n.Until.IsZero() {
		return Notice{}, false
	}
	return n, true
}

// Text is a notice as the annotation has it.
func (n Notice) Text() string {
	text, _ := json.Marshal(n) // it has no value that JSON does not know
	return string(text)
}

// Answered reports whether a pod has saved its work since it was told so. Its clock need not agree with the scheduler's: what
// counts is that it says another time than before.
func (n Notice) Answered(pod *corev1.Pod) bool {
	saved := savedAt(pod)
	return saved != "" && saved != n.Saved
}

// Holds reports whether others wait for a pod to save its work.
func (n Notice) Holds(pod *corev1.Pod, now time.Time) bool {
	return n.Awaited && now.Before(n.Until) && !n.Answered(pod)
}

// savedAt is when a pod saved its work last, as it says it; "" for what is no time.
func savedAt(pod *corev1.Pod) string {
	saved := pod.Annotations[names.AnnotationCheckpointedAt]
	if len(saved) > longestTime {
		return ""
	}
	if _, err := time.Parse(time.RFC3339, saved); err != nil {
		return ""
	}
	return saved
}

// Victim is a pod that is to leave.
type Victim struct {
	Pod *corev1.Pod
	// Grace is how long it has to save its work, 0 for one that does not ask.
	Grace time.Duration
	// Before is what it was told already, for whomever; nil for nothing.
	Before *Notice
}

// Plan says what those are told who leave together for somebody, nil where nobody of them asks for time. Who was told before
// has no more time than then. Who does not ask leaves with the others, by the time of the last of them: their cards would do nothing
// meanwhile.
func Plan(victims []Victim, by Preemptor, now time.Time) map[types.UID]Notice {
	told := make(map[types.UID]Notice, len(victims))
	var last time.Time
	for _, victim := range victims {
		n := Notice{At: now.UTC().Truncate(time.Second), For: by, Saved: savedAt(victim.Pod), Awaited: victim.Grace > 0}
		if n.Until = wholeSecond(now.Add(victim.Grace)); victim.Before != nil && victim.Before.Awaited {
			n.At, n.Saved, n.Until = victim.Before.At, victim.Before.Saved, earlier(victim.Before.Until, n.Until)
		}
		if n.Holds(victim.Pod, now) && n.Until.After(last) {
			last = n.Until
		}
		told[victim.Pod.UID] = n
	}
	if last.IsZero() {
		return nil
	}
	for uid, n := range told {
		if !n.Awaited {
			n.Until = last
			told[uid] = n
		}
	}
	return told
}

// wholeSecond is a time as it is written: not before it.
func wholeSecond(at time.Time) time.Time {
	return at.Add(time.Second - 1).UTC().Truncate(time.Second)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
