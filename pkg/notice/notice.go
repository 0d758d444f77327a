// Package notice defines the notice for a pod that is to be preempted and has asked for time to save its work, and whether the pod has answered.
package notice

import (
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

const (
	// maxNoticeLength is the maximum length of a notice: it is stored on a pod, which users can write.
	maxNoticeLength = 2048
	// maxTimeLength is the maximum length of a time.
	maxTimeLength = 64
)

// Notice is a preemption notice, stored in an annotation.
type Notice struct {
	// At is when the pod was notified, Until the deadline.
	At    time.Time `json:"at"`
	Until time.Time `json:"until"`
	For   Preemptor `json:"for"`
	// Awaited says that no victim leaves before this pod has saved its work, or its time is over. The others leave together with it.
	Awaited bool `json:"awaited,omitempty"`
	// Saved is the pod's last checkpoint at that time, as reported by the pod.
	Saved string `json:"saved,omitempty"`
}

// Preemptor is the beneficiary of a preemption: a pod, or a gang.
type Preemptor struct {
	Namespace string `json:"namespace"`
	// Pod is the name of the pod, or of a member of the gang.
	Pod string `json:"pod"`
	// Group is the PodGroup of a gang, "" for a pod alone.
	Group string `json:"group,omitempty"`
	// UID is the pod's, or for a gang that of its members' controller.
	UID types.UID `json:"uid,omitempty"`
}

// Key identifies a preemptor.
type Key struct {
	Namespace, Group string
	UID              types.UID
}

// Key returns the key of a preemptor: a gang keeps it when a member is recreated.
func (p Preemptor) Key() Key { return Key{Namespace: p.Namespace, Group: p.Group, UID: p.UID} }

// FromPod returns the notice on a pod, false if there is no valid one.
func FromPod(pod *corev1.Pod) (Notice, bool) {
	var n Notice
	text := pod.Annotations[names.AnnotationPreemptionNotice]
	if text == "" || len(text) > maxNoticeLength || json.Unmarshal([]byte(text), &n) != nil || n.For.Pod == "" || n.Until.IsZero() {
		return Notice{}, false
	}
	return n, true
}

// AnnotationText returns the notice in the form of the annotation.
func (n Notice) AnnotationText() string {
	text, _ := json.Marshal(n) // it has no value that JSON does not know
	return string(text)
}

// IsAnswered reports whether a pod has saved its work since its notice. Its clock need not agree with the scheduler's: any other time than before
// counts.
func (n Notice) IsAnswered(pod *corev1.Pod) bool {
	saved := savedAt(pod)
	return saved != "" && saved != n.Saved
}

// IsPending reports whether the victims wait for a pod to save its work.
func (n Notice) IsPending(pod *corev1.Pod, now time.Time) bool {
	return n.Awaited && now.Before(n.Until) && !n.IsAnswered(pod)
}

// savedAt returns when a pod last saved its work, as reported by the pod; "" for an invalid time.
func savedAt(pod *corev1.Pod) string {
	saved := pod.Annotations[names.AnnotationCheckpointedAt]
	if len(saved) > maxTimeLength {
		return ""
	}
	if _, err := time.Parse(time.RFC3339, saved); err != nil {
		return ""
	}
	return saved
}

// Victim is a pod to be preempted.
type Victim struct {
	Pod *corev1.Pod
	// Grace is how long it has to save its work, 0 if it does not ask.
	Grace time.Duration
	// Before is its earlier notice, for any preemptor; nil for none.
	Before *Notice
}

// PlanNotices returns the notices for pods that are preempted together, nil if none of them asks for time. A pod with an earlier notice gets no more
// time than that. A pod that does not ask leaves with the others, by the last deadline: its GPUs would be idle in the meantime.
func PlanNotices(victims []Victim, by Preemptor, now time.Time) map[types.UID]Notice {
	told := make(map[types.UID]Notice, len(victims))
	var last time.Time
	for _, victim := range victims {
		n := Notice{At: now.UTC().Truncate(time.Second), For: by, Saved: savedAt(victim.Pod), Awaited: victim.Grace > 0}
		if n.Until = wholeSecond(now.Add(victim.Grace)); victim.Before != nil && victim.Before.Awaited {
			n.At, n.Saved, n.Until = victim.Before.At, victim.Before.Saved, earlierTime(victim.Before.Until, n.Until)
		}
		if n.IsPending(victim.Pod, now) && n.Until.After(last) {
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

// wholeSecond rounds a time up to a second, as it is written.
func wholeSecond(at time.Time) time.Time {
	return at.Add(time.Second - 1).UTC().Truncate(time.Second)
}

func earlierTime(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
