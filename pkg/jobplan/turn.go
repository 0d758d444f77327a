package jobplan

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/quota"
)

// QuotaTurnPatch returns the merge patch for a gang's turn for a quota of its namespace. It fails if the Job has changed since it was read.
func QuotaTurnPatch(job *batchv1.Job, turn quota.GangChange, now time.Time) ([]byte, error) {
	annotations, spec := map[string]any{}, map[string]any{}
	switch {
	case turn.Suspend:
		annotations[names.AnnotationQuotaBehind], spec["suspend"] = turn.Behind, true
	case turn.Resume:
		annotations[names.AnnotationQuotaBehind], spec["suspend"] = nil, false
	case turn.Retry:
		annotations[names.AnnotationQuotaTurn] = now.UTC().Format(time.RFC3339)
	}
	out, err := newStep(job, annotations, spec)
	return out.Patch, err
}
