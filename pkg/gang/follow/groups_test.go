package follow

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestLittleIsKeptOfAPodGroup, so that who writes a megabyte into each does not fill the scheduler.
func TestLittleIsKeptOfAPodGroup(t *testing.T) {
	object := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"phase": strings.Repeat("x", 1<<20)}}}
	object.SetAnnotations(map[string]string{"a": strings.Repeat("x", 1<<20)})
	kept, err := keepRules(object)
	if err != nil {
		t.Fatal(err)
	}
	if size := len(fmt.Sprintf("%+v", kept)); size > 2000 {
		t.Errorf("%d bytes are kept", size)
	}
}
