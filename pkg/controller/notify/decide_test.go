package notify

import (
	"context"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

var noon = time.Date(2026, time.July, 1, 12, 0, 0, 0, time.UTC)

// jobOfTeam is a Job that wants to be told of words.
func jobOfTeam(on string, edit ...func(*batchv1.Job)) *batchv1.Job {
	began := metav1.NewTime(noon.Add(-2 * time.Hour))
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Name: "sft", Namespace: "team", UID: "uid-2",
		Annotations: map[string]string{g8s.AnnotationNotify: "ml", g8s.AnnotationNotifyOn: on},
	}, Status: batchv1.JobStatus{StartTime: &began}}
	for _, e := range edit {
		e(job)
	}
	return job
}

func ended(as batchv1.JobConditionType, ago time.Duration) func(*batchv1.Job) {
	return func(job *batchv1.Job) {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{
			Type: as, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon.Add(-ago)),
			Reason: "BackoffLimitExceeded", Message: "Job has reached the specified backoff limit",
		})
	}
}

func annotated(key, value string) func(*batchv1.Job) {
	return func(job *batchv1.Job) { job.Annotations[key] = value }
}

func TestDueEnd(t *testing.T) {
	tests := map[string]struct {
		job  *batchv1.Job
		want string
		text string
	}{
		"one that runs":   {job: jobOfTeam("succeeded,failed")},
		"one that failed": {job: jobOfTeam("failed", ended(batchv1.JobFailed, 0)), want: "failed", text: "Job team/sft failed after 120m (BackoffLimitExceeded: Job has reached the specified backoff limit). See: gpuctl why sft -n team"},
		"one that succeeded a while ago": {job: jobOfTeam("succeeded", ended(batchv1.JobComplete, time.Hour)), want: "succeeded",
			text: "Job team/sft succeeded after 60m"},
		"one that was cancelled":           {job: jobOfTeam("cancelled", annotated(g8s.AnnotationCancelledAt, noon.Format(time.RFC3339))), want: "cancelled", text: "Job team/sft was cancelled after 120m"},
		"what nobody wants to know":        {job: jobOfTeam("failed", ended(batchv1.JobComplete, 0))},
		"what was told":                    {job: jobOfTeam("failed", ended(batchv1.JobFailed, 0), annotated(g8s.AnnotationNotified, "uid-2/failed"))},
		"what was told of the Job before":  {job: jobOfTeam("failed", ended(batchv1.JobFailed, 0), annotated(g8s.AnnotationNotified, "uid-1/failed")), want: "failed"},
		"what is no news any more":         {job: jobOfTeam("failed", ended(batchv1.JobFailed, 25*time.Hour))},
		"a Job that names no channel":      {job: jobOfTeam("failed", ended(batchv1.JobFailed, 0), annotated(g8s.AnnotationNotify, ""))},
		"a word that somebody has written": {job: jobOfTeam("fail", ended(batchv1.JobFailed, 0))},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := dueEnd(tc.job, noon)
			if got != tc.want {
				t.Fatalf("got %q, want %q", got, tc.want)
			}
			if tc.text == "" {
				return
			}
			if text := endNotification(tc.job, got, noon).Text; text != tc.text {
				t.Errorf("it says %q, want %q", text, tc.text)
			}
		})
	}
}

func lost(uid string, ago time.Duration, status corev1.ConditionStatus) corev1.Pod {
	return corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)}, Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{
		Type: corev1.DisruptionTarget, Status: status, Reason: corev1.PodReasonPreemptionByScheduler, LastTransitionTime: metav1.NewTime(noon.Add(-ago)),
	}}}}
}

func TestDueEvictions(t *testing.T) {
	told := annotated(g8s.AnnotationNotifiedEvictions, noon.Add(-time.Minute).Format(time.RFC3339))
	tests := map[string]struct {
		job    *batchv1.Job
		before *evicted
		pods   []corev1.Pod
		want   string
	}{
		"a pod of a job": {job: jobOfTeam("evicted"), pods: []corev1.Pod{lost("a", time.Second, corev1.ConditionTrue), {}},
			want: "Job team/sft lost the places of a pod (PreemptionByScheduler), and starts again by itself"},
		"all members of a gang": {job: jobOfTeam("evicted"), pods: []corev1.Pod{lost("a", time.Second, corev1.ConditionTrue), lost("b", 0, corev1.ConditionTrue)},
			want: "Job team/sft lost the places of 2 pods (PreemptionByScheduler), and starts again by itself"},
		"one that is gone since it was seen": {job: jobOfTeam("evicted"), before: &evicted{job: "uid-2", pods: map[string]bool{"a": true}},
			pods: []corev1.Pod{lost("b", 0, corev1.ConditionTrue)}, want: "Job team/sft lost the places of 2 pods (PreemptionByScheduler), and starts again by itself"},
		"one of the Job before": {job: jobOfTeam("evicted"), before: &evicted{job: "uid-1", pods: map[string]bool{"a": true}},
			pods: []corev1.Pod{lost("b", 0, corev1.ConditionTrue)}, want: "Job team/sft lost the places of a pod (PreemptionByScheduler), and starts again by itself"},
		"what was told":             {job: jobOfTeam("evicted", told), pods: []corev1.Pod{lost("a", 2*time.Minute, corev1.ConditionTrue)}},
		"what came after that":      {job: jobOfTeam("evicted", told), pods: []corev1.Pod{lost("a", time.Second, corev1.ConditionTrue)}, want: "Job team/sft lost the places of a pod (PreemptionByScheduler), and starts again by itself"},
		"a pod that stays":          {job: jobOfTeam("evicted"), pods: []corev1.Pod{lost("a", 0, corev1.ConditionFalse)}},
		"what nobody wants to know": {job: jobOfTeam("failed"), pods: []corev1.Pod{lost("a", 0, corev1.ConditionTrue)}},
		"a Job that has ended":      {job: jobOfTeam("evicted,failed", ended(batchv1.JobFailed, 0)), pods: []corev1.Pod{lost("a", 0, corev1.ConditionTrue)}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := dueEvictions(tc.before, tc.job, tc.pods, noon)
			if got == nil {
				if tc.want != "" {
					t.Errorf("got nothing, want %q", tc.want)
				}
				return
			}
			if text := evictionNotification(tc.job, got).Text; text != tc.want {
				t.Errorf("it says %q, want %q", text, tc.want)
			}
		})
	}
}

// TestWhereChannelsLead: for whom they are, and to where, is for administrators to say.
func TestWhereChannelsLead(t *testing.T) {
	policy := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: g8s.PolicyConfigMap}, Data: map[string]string{
		"channels.ml": "team", "channels.none": "team", "channels.http": "*", "channels.user": "*", "channels.file": "*",
	}}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: g8s.ChannelSecret}, Data: map[string][]byte{
		"ml": []byte("https://hooks.example.com/T/B/x\n"), "ops": []byte("https://hooks.example.com/ops"), "http": []byte("http://hooks.example.com/x"),
		"user": []byte("https://a:b@hooks.example.com/x"), "file": []byte("file:///etc/passwd"),
	}}
	directory := &Directory{Live: fake.NewClientBuilder().WithObjects(policy, secret).Build(), Clock: clocktesting.NewFakePassiveClock(noon)}
	tests := map[string]struct{ channel, namespace, url, why string }{
		"one's own":                  {channel: "ml", namespace: "team", url: "https://hooks.example.com/T/B/x"},
		"that of others":             {channel: "ml", namespace: "other", why: `there is no channel "ml" for jobs of namespace other`},
		"one that is for nobody":     {channel: "ops", namespace: "team", why: `there is no channel "ops"`},
		"one without a URL":          {channel: "none", namespace: "team", why: "the channel has no URL"},
		"one that anybody can read":  {channel: "http", namespace: "team", why: "is none that begins with https://"},
		"one with a password in it":  {channel: "user", namespace: "team", why: "is none that begins with https://"},
		"one that is no web address": {channel: "file", namespace: "team", why: "is none that begins with https://"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			url, outcome := directory.ResolveAddress(context.Background(), tc.channel, tc.namespace)
			if url != tc.url || !strings.Contains(outcome.Why, tc.why) || (tc.why == "") != (outcome.Why == "") || strings.Contains(outcome.Why, "example.com") {
				t.Errorf("got %q and %+v, want %q and %q", url, outcome, tc.url, tc.why)
			}
		})
	}
}

// TestANameThatIsTooLong is told in few words: all of an annotation, and more, would not fit beside it on the Job.
func TestANameThatIsTooLong(t *testing.T) {
	for name, want := range map[string]int{strings.Repeat("a", 253): 253, strings.Repeat("a", 254): 67, strings.Repeat("语", 60_000): 66} {
		job := jobOfTeam("failed", annotated(g8s.AnnotationNotify, name))
		channel, _ := notifySettings(job)
		if len(channel) != want || endNotification(job, g8s.NotifyFailed, noon).Channel != channel {
			t.Errorf("a name of %d bytes becomes one of %d, want %d", len(name), len(channel), want)
		}
		if why := nowhere(t, channel); why == "" || len(why) > 500 {
			t.Errorf("of a name of %d bytes it is told: %.100q, in %d bytes", len(name), why, len(why))
		}
	}
}

// nowhere is why a channel that is not there is not told.
func nowhere(t *testing.T, name string) string {
	t.Helper()
	directory := &Directory{Live: fake.NewClientBuilder().Build(), Clock: clocktesting.NewFakePassiveClock(noon)}
	_, outcome := directory.ResolveAddress(t.Context(), name, "team")
	return outcome.Why
}
