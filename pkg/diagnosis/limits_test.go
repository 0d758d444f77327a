package diagnosis

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// TestAdviceSatisfiesQuotasAndLimitRangesAtOnce: what is told to be asked for is let in by all of them, and where no amount is, none
// is told. The job asks for 4 GPUs.
func TestAdviceSatisfiesQuotasAndLimitRangesAtOnce(t *testing.T) {
	limits := func(item corev1.LimitRangeItem) corev1.LimitRange {
		return corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "gpu-limits"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{item}}}
	}
	gpus := func(count string) corev1.ResourceList {
		return corev1.ResourceList{names.ResourceGPU: resource.MustParse(count)}
	}
	most := func(count string) corev1.LimitRange {
		return limits(corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Max: gpus(count)})
	}
	const exceeded, violated = reason.QuotaExceeded, reason.LimitRangeViolated
	tests := map[string]struct {
		space  *snapshot.Snapshot
		ranges []corev1.LimitRange
		pods   int32
		causes []reason.Cause
		// ask is what each step says to ask for.
		ask []string
	}{
		"a quota alone":                      {space: quota("3", "0"), causes: []reason.Cause{exceeded}, ask: []string{"3"}},
		"a limit range alone":                {space: quota("8", "0"), ranges: []corev1.LimitRange{most("2")}, causes: []reason.Cause{violated}, ask: []string{"2"}},
		"the limit range is narrower":        {space: quota("3", "0"), ranges: []corev1.LimitRange{most("2")}, causes: []reason.Cause{violated, exceeded}, ask: []string{"2", "2"}},
		"the quota is narrower":              {space: quota("3", "2"), ranges: []corev1.LimitRange{most("2")}, causes: []reason.Cause{violated, exceeded}, ask: []string{"1", "1"}},
		"the quota is used up by others":     {space: quota("3", "3"), ranges: []corev1.LimitRange{most("2")}, causes: []reason.Cause{violated, exceeded}, ask: []string{"2"}},
		"two pods of a gang share the quota": {space: quota("3", "0"), ranges: []corev1.LimitRange{most("2")}, pods: 2, causes: []reason.Cause{violated, exceeded}, ask: []string{"1", "1"}},
		"two limit ranges":                   {space: quota("8", "0"), ranges: []corev1.LimitRange{most("3"), most("1")}, causes: []reason.Cause{violated, violated}, ask: []string{"1", "1"}},
		"one wants more than the others allow": {
			space:  quota("3", "0"),
			ranges: []corev1.LimitRange{most("4"), limits(corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Min: gpus("4")})},
			causes: []reason.Cause{exceeded},
		},
		"too little, and the quota has less than is wanted": {
			space:  quota("6", "0"),
			ranges: []corev1.LimitRange{limits(corev1.LimitRangeItem{Type: corev1.LimitTypePod, Min: gpus("8")})},
			causes: []reason.Cause{violated},
		},
		"too little": {
			space:  quota("9", "0"),
			ranges: []corev1.LimitRange{limits(corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Min: gpus("8")})},
			causes: []reason.Cause{violated}, ask: []string{"8"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			report := Diagnose(unborn("", func(f *Facts) {
				f.Space = tc.space
				f.Space.LimitRanges, f.Job.Desired = tc.ranges, max(tc.pods, 1)
			}))
			var causes []reason.Cause
			var ask, raise []string
			for _, finding := range report.Findings {
				causes = append(causes, finding.Cause)
				for _, step := range finding.Steps {
					switch step.Action {
					case reason.SetField:
						ask = append(ask, step.Value)
					case reason.RaiseQuota, reason.RaiseLimit:
						raise = append(raise, step.Name)
					}
				}
			}
			if diff := cmp.Diff(tc.causes, causes); diff != "" {
				t.Errorf("causes (-want +got):\n%s", diff)
			}
			if !slices.Equal(ask, tc.ask) || len(raise) != len(causes) {
				t.Errorf("it says to ask for %q, want %q; and to raise %q", ask, tc.ask, raise)
			}
		})
	}
}

// TestAQuotaCountsWhatALimitRangeGives: the job says nothing of GPUs, and its pods get one each.
func TestAQuotaCountsWhatALimitRangeGives(t *testing.T) {
	given := corev1.ResourceList{names.ResourceGPU: resource.MustParse("1")}
	report := Diagnose(unborn("", func(f *Facts) {
		f.Job.Template.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
		f.Job.Status = inventory.StatusPending
		f.Space = quota("2", "2")
		f.Space.LimitRanges = []corev1.LimitRange{{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
			{Type: corev1.LimitTypeContainer, Default: given, DefaultRequest: given},
		}}}}
	}))
	if report.Cause != reason.QuotaExceeded {
		t.Errorf("the cause is %s, want %s: %+v", report.Cause, reason.QuotaExceeded, report.Findings)
	}
}
