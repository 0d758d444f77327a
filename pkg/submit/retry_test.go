package submit

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

func TestTasksThatHaveSucceededRunAgainOnlyIfPermitted(t *testing.T) {
	tests := map[string]struct {
		mode      batchv1.CompletionMode
		gang      string
		succeeded int32
		options   EditOptions
		refused   bool
	}{
		"some have succeeded":              {mode: batchv1.IndexedCompletion, succeeded: 3, refused: true},
		"some have, and that is permitted": {mode: batchv1.IndexedCompletion, succeeded: 3, options: EditOptions{AllTasks: true}},
		"none has":                         {mode: batchv1.IndexedCompletion},
		"all have":                         {mode: batchv1.IndexedCompletion, succeeded: 5},
		"members of a gang are no tasks":   {mode: batchv1.IndexedCompletion, gang: "sweep", succeeded: 3},
		"a job of one run":                 {mode: batchv1.NonIndexedCompletion, succeeded: 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "sweep", Labels: map[string]string{names.LabelJob: "sweep"}}}
			job.Spec.CompletionMode, job.Spec.Completions, job.Status.Succeeded = &tc.mode, ptr.To[int32](5), tc.succeeded
			if tc.gang != "" {
				job.Spec.Template.Labels = map[string]string{names.LabelPodGroup: tc.gang}
			}
			err := checkTasks(job, tc.options)
			if (err != nil) != tc.refused || err != nil && !strings.Contains(err.Error(), "has 5 tasks, and 3 have succeeded") {
				t.Errorf("it says %v", err)
			}
		})
	}
}
