package submit

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// forbidden is an error as the API server makes it of what an admission plugin says.
func forbidden(said string) *apierrors.StatusError {
	err := apierrors.NewForbidden(schema.GroupResource{Group: "batch", Resource: "jobs"}, "sft", errors.New(said))
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Message: said})
	return err
}

func TestPolicyRefusal(t *testing.T) {
	tests := map[string]struct {
		err          error
		policy, text string
	}{
		"a policy": {
			fmt.Errorf("creating Job sft: %w", forbidden("ValidatingAdmissionPolicy 'p' with binding 'b' denied request: not this\nask 'x'")),
			"p", "creating Job sft: not this\nask 'x'",
		},
		"a policy without a binding": {forbidden("ValidatingAdmissionPolicy 'p' denied request: no params"), "p", "no params"},
		"a webhook":                  {forbidden(`admission webhook "w" denied the request: no`), "", ""},
		"a right that is missing":    {apierrors.NewForbidden(schema.GroupResource{}, "sft", errors.New("no")), "", ""},
		"an error that is none":      {errors.New("ValidatingAdmissionPolicy 'p' denied request: forged"), "", ""},
		"a status without details":   {&apierrors.StatusError{}, "", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			policy, text, ok := PolicyRefusal(test.err)
			if policy != test.policy || text != test.text || ok != (test.policy != "") {
				t.Errorf("got %q, %q, %t, want %q, %q", policy, text, ok, test.policy, test.text)
			}
		})
	}
}
