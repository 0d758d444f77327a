package diagnosis

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/test/fixture"
)

// TestWhatGPUQuotasSayToAJob that asks for 8 GPUs of a pool with 16, by what is in use now and within the rights of who asks.
func TestWhatGPUQuotasSayToAJob(t *testing.T) {
	quota := func(least int64, most *int64, namespaces ...string) names.GPUQuota {
		return names.GPUQuota{ObjectMeta: metav1.ObjectMeta{Name: "share", Generation: 1}, Spec: names.GPUQuotaSpec{Namespaces: namespaces, Pool: "p", Min: least, Max: most}}
	}
	runs := func(node, namespace, job string) corev1.Pod {
		pod := on(node, 8, job)
		pod.Namespace, pod.UID = namespace, types.UID(namespace+job)
		pod.Spec.NodeSelector = map[string]string{names.LabelPool: "p"}
		return pod
	}
	full := []corev1.Pod{runs("n1", "lab", "x"), runs("n2", "other", "y")}
	blind := func(f *Facts) {
		f.Cluster.MarkUnread(snapshot.PartAllPods)
		f.Cluster.Pods = nil
		f.Cluster.GPUQuotas[0].Status = names.GPUQuotaStatus{ObservedGeneration: 1, Lent: 8, Borrowers: []names.GPUQuotaBorrower{{Namespace: "lab", GPUs: 8}}}
	}
	tests := map[string]struct {
		quota  names.GPUQuota
		pods   []corev1.Pod
		change func(*Facts)
		says   string
		causes []reason.Cause
		advice []string
		silent []string
	}{
		"others borrow what is guaranteed to it": {quota: quota(12, nil, "team"), pods: full, causes: []reason.Cause{reason.GPUsLent, reason.Busy},
			says: "12 of the 12 GPUs of pool p that GPUQuota share guarantees to the namespace are borrowed by lab (8: job x), other (8: job y)", advice: []string{"wait: who borrows them leaves"}},
		"who may not see the pods of others gets the numbers": {quota: quota(12, nil, "team"), change: blind, causes: []reason.Cause{reason.GPUsLent, reason.Busy},
			says: "8 of the 12 GPUs of pool p that GPUQuota share guarantees to the namespace are borrowed by lab (8)", silent: []string{"job x"}},
		"who may not see quotas believes the scheduler": {quota: quota(12, nil, "team"), pods: full, change: func(f *Facts) { f.Cluster.MarkUnread(snapshot.PartGPUQuotas) }, causes: []reason.Cause{reason.Busy}},
		"it would borrow": {quota: quota(4, nil, "team"), pods: full, causes: []reason.Cause{reason.Busy, reason.BeyondGuarantee}, advice: []string{"ask for at most 4 GPUs, as many as are guaranteed", "a higher min of GPUQuota share"}},
		"its namespace may have no more": {quota: quota(0, ptr.To[int64](12), "team", "lab"), pods: full[:1], causes: []reason.Cause{reason.GPUQuotaReached},
			says: "8 of the 12 GPUs of pool p that the namespace may have are in use, and the job asks for 8", advice: []string{"whatever is free on nodes: job x of namespace lab", "ask for at most 4 GPUs"}},
		"it never may":                 {quota: quota(0, ptr.To[int64](4), "team"), causes: []reason.Cause{reason.GPUQuotaReached}, says: "it never starts", advice: []string{"ask for at most 4 GPUs"}, silent: []string{"wait until"}},
		"another namespace":            {quota: quota(12, ptr.To[int64](12), "lab"), pods: full, causes: []reason.Cause{reason.Busy}},
		"another pool":                 {quota: names.GPUQuota{Spec: names.GPUQuotaSpec{Namespaces: []string{"team"}, Pool: "q", Max: ptr.To[int64](0)}}, pods: full, causes: []reason.Cause{reason.Busy}},
		"a type that it need not take": {quota: names.GPUQuota{Spec: names.GPUQuotaSpec{Namespaces: []string{"team"}, Pool: "p", GPUType: "T4", Max: ptr.To[int64](0)}}, pods: full, causes: []reason.Cause{reason.Busy}},
		"gpu-controller has not counted": {quota: quota(12, nil, "team"), causes: []reason.Cause{reason.Busy}, change: func(f *Facts) {
			blind(f)
			f.Cluster.GPUQuotas[0].Generation = 2
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			facts := factsOf(refused(fixture.Pod("train-0").GPUs(8).Pool("p"), busy), node("n1", "p", 8), node("n2", "p", 8))
			facts.Cluster.Pods, facts.Cluster.GPUQuotas = slices.Clone(tc.pods), []names.GPUQuota{tc.quota}
			if tc.change != nil {
				tc.change(&facts)
			}
			report := Diagnose(facts)
			var causes []reason.Cause
			text := ""
			for _, found := range report.Findings {
				causes = append(causes, found.Cause)
				text += found.Text + "\n" + strings.Join(found.Advice, "\n") + "\n"
			}
			if len(causes) < len(tc.causes) || !slices.Equal(causes[:len(tc.causes)], tc.causes) || slices.Contains(causes, reason.GPUsLent) != slices.Contains(tc.causes, reason.GPUsLent) ||
				slices.Contains(causes, reason.GPUQuotaReached) != slices.Contains(tc.causes, reason.GPUQuotaReached) {
				t.Errorf("the causes are %v, want %v:\n%s", causes, tc.causes, text)
			}
			for _, want := range append(tc.advice, tc.says) {
				if !strings.Contains(text, want) {
					t.Errorf("it does not say %q:\n%s", want, text)
				}
			}
			for _, not := range tc.silent {
				if strings.Contains(text, not) {
					t.Errorf("it says %q:\n%s", not, text)
				}
			}
		})
	}
}
