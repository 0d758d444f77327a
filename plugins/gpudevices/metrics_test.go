package gpudevices

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestRefusedBy(t *testing.T) {
	bindings := schema.GroupResource{Resource: "pods/binding"}
	tests := map[string]struct {
		message, want string
	}{
		"the fence":      {"ValidatingAdmissionPolicy 'g8s-fence' with binding 'g8s-fence' denied request: the binding is of epoch a/1", byFence},
		"another policy": {"ValidatingAdmissionPolicy 'theirs' with binding 'g8s-fence' denied request: no", byOther},
		"a right":        {"User cannot create resource", byOther},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			err := apierrors.NewForbidden(bindings, "pod", errorText(tc.message))
			if got := refusedBy(err); got != tc.want || readResult(err) != resultRefused {
				t.Errorf("%v is refused by %s, want %s", err, got, tc.want)
			}
		})
	}
}

type errorText string

func (e errorText) Error() string { return string(e) }
