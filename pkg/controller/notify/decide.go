package notify

import (
	"cmp"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/jobplan"
)

const (
	// forgotten is how long after its end nobody is told of a job any more: it is no news.
	forgotten = 24 * time.Hour
	// gathering is how long evictions are gathered, as all members of a gang are evicted at once.
	gathering = 5 * time.Second
)

const (
	// longestName is what a key of a ConfigMap may be long, by which channels are named, and shortened what is told of a longer one.
	longestName = 253
	shortened   = 64
)

// asked is what a Job wants told; "" for a Job that wants nothing. A name that no channel can have is shortened to another such: what is
// told of it is written on the Job, and into logs.
func asked(job *batchv1.Job) (channel string, on []string) {
	channel = job.Annotations[g8s.AnnotationNotify]
	if len(channel) > longestName {
		channel = strings.ToValidUTF8(channel[:shortened], "") + "…"
	}
	return channel, strings.Split(job.Annotations[g8s.AnnotationNotifyOn], ",")
}

// ending is how a Job has ended, in the word of its YAML; "" if it has not.
func ending(job *batchv1.Job) string {
	switch jobplan.StateOf(job) {
	case jobplan.StateSucceeded:
		return g8s.NotifySucceeded
	case jobplan.StateFailed:
		return g8s.NotifyFailed
	case jobplan.StateCancelled:
		return g8s.NotifyCancelled
	}
	return ""
}

// settledAs is what is noted on a Job that somebody was told of. A Job that is made again inherits annotations of the one before,
// and is another.
func settledAs(job *batchv1.Job, word string) string { return string(job.UID) + "/" + word }

// dueEnd is the word for the end of a Job that somebody is to be told of now; "" for none.
func dueEnd(job *batchv1.Job, now time.Time) string {
	word := ending(job)
	channel, on := asked(job)
	switch {
	case word == "" || channel == "" || !slices.Contains(on, word):
		return ""
	case job.Annotations[g8s.AnnotationNotified] == settledAs(job, word), now.Sub(endOf(job, now)) > forgotten:
		return ""
	}
	return word
}

// endOf is when a Job has ended; now where nobody says when.
func endOf(job *batchv1.Job, now time.Time) time.Time {
	for _, condition := range job.Status.Conditions {
		ended := condition.Type == batchv1.JobComplete || condition.Type == batchv1.JobFailed
		if ended && condition.Status == corev1.ConditionTrue {
			return condition.LastTransitionTime.Time
		}
	}
	if at, err := time.Parse(time.RFC3339, job.Annotations[g8s.AnnotationCancelledAt]); err == nil {
		return at
	}
	return now
}

// evicted are pods of one Job that have lost their places.
type evicted struct {
	job types.UID
	// seen is when this was first seen, last the time of the newest of them, and why the newest's reason.
	seen, last time.Time
	why        string
	pods       map[string]bool
}

// dueEvictions adds the pods of a Job that have lost their places since somebody was told last. It is nil if there are none, or
// nobody wants to know; a Job that has ended says so itself.
func dueEvictions(before *evicted, job *batchv1.Job, pods []corev1.Pod, now time.Time) *evicted {
	channel, on := asked(job)
	if channel == "" || !slices.Contains(on, g8s.NotifyEvicted) || ending(job) != "" {
		return nil
	}
	told, _ := time.Parse(time.RFC3339, job.Annotations[g8s.AnnotationNotifiedEvictions]) // the zero time is before all
	out := before
	if out != nil && out.job != job.UID { // of another Job of the name
		out = nil
	}
	for i := range pods {
		condition, ok := disruption(&pods[i])
		at := condition.LastTransitionTime.Time
		if !ok || !at.After(told) || now.Sub(at) > forgotten {
			continue
		}
		if out == nil {
			out = &evicted{job: job.UID, seen: now, pods: map[string]bool{}}
		}
		out.pods[string(pods[i].UID)] = true
		if !at.Before(out.last) {
			out.last, out.why = at, cmp.Or(condition.Reason, "Evicted")
		}
	}
	return out
}

func disruption(pod *corev1.Pod) (corev1.PodCondition, bool) {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.DisruptionTarget && condition.Status == corev1.ConditionTrue {
			return condition, true
		}
	}
	return corev1.PodCondition{}, false
}
