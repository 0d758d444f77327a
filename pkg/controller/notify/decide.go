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
	"g8s.host/gpu-scheduler/pkg/condition"
	"g8s.host/gpu-scheduler/pkg/jobplan"
)

const (
	// newsTTL is how long after its end a job still causes a notification.
	newsTTL = 24 * time.Hour
	// gathering is how long evictions are collected, because all members of a gang are evicted at about the same time.
	gathering = 5 * time.Second
)

const (
	// longestName is the limit of a ConfigMap key, and thus of a channel name. shortened is the length to which longer names are cut.
	longestName = 253
	shortened   = 64
)

// notifySettings returns the notification settings of a Job; "" if it has none. A name that is too long for a channel is cut, because it appears on the Job
// and in logs.
func notifySettings(job *batchv1.Job) (channel string, on []string) {
	channel = job.Annotations[g8s.AnnotationNotify]
	if len(channel) > longestName {
		channel = strings.ToValidUTF8(channel[:shortened], "") + "…"
	}
	return channel, strings.Split(job.Annotations[g8s.AnnotationNotifyOn], ",")
}

// endReason returns how a Job has ended, in the term of its YAML; "" if it has not.
func endReason(job *batchv1.Job) string {
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

// notedAs is the annotation value of a delivered notification. It has the UID because a recreated Job inherits annotations of its predecessor.
func notedAs(job *batchv1.Job, word string) string { return string(job.UID) + "/" + word }

// dueEnd returns the end of a Job that is due for a notification; "" for none.
func dueEnd(job *batchv1.Job, now time.Time) string {
	word := endReason(job)
	channel, on := notifySettings(job)
	switch {
	case word == "" || channel == "" || !slices.Contains(on, word):
		return ""
	case job.Annotations[g8s.AnnotationNotified] == notedAs(job, word), now.Sub(endOf(job, now)) > newsTTL:
		return ""
	}
	return word
}

// endOf returns when a Job ended; now if that is unknown.
func endOf(job *batchv1.Job, now time.Time) time.Time {
	if ended := condition.TrueOfJob(job, batchv1.JobComplete, batchv1.JobFailed); ended != nil {
		return ended.LastTransitionTime.Time
	}
	if at, err := time.Parse(time.RFC3339, job.Annotations[g8s.AnnotationCancelledAt]); err == nil {
		return at
	}
	return now
}

// evicted are evicted pods of one Job.
type evicted struct {
	job types.UID
	// seen is when the first of them was seen, last the time of the newest eviction, and why its reason.
	seen, last time.Time
	why        string
	pods       map[string]bool
}

// dueEvictions adds the pods of a Job that were evicted since the last notification. It returns nil if there are none, or if the Job does not ask for
// it. A Job that has ended gets a notification of its end instead.
func dueEvictions(before *evicted, job *batchv1.Job, pods []corev1.Pod, now time.Time) *evicted {
	channel, on := notifySettings(job)
	if channel == "" || !slices.Contains(on, g8s.NotifyEvicted) || endReason(job) != "" {
		return nil
	}
	told, _ := time.Parse(time.RFC3339, job.Annotations[g8s.AnnotationNotifiedEvictions]) // the zero time is before everything
	out := before
	if out != nil && out.job != job.UID { // of another Job with this name
		out = nil
	}
	for i := range pods {
		disrupted := condition.TrueOfPod(&pods[i], corev1.DisruptionTarget)
		if disrupted == nil {
			continue
		}
		at := disrupted.LastTransitionTime.Time
		if !at.After(told) || now.Sub(at) > newsTTL {
			continue
		}
		if out == nil {
			out = &evicted{job: job.UID, seen: now, pods: map[string]bool{}}
		}
		out.pods[string(pods[i].UID)] = true
		if !at.Before(out.last) {
			out.last, out.why = at, cmp.Or(disrupted.Reason, "Evicted")
		}
	}
	return out
}
