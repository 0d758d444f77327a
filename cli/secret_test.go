package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"g8s.host/gpu-scheduler/pkg/queue"
	"g8s.host/gpu-scheduler/pkg/submit"
)

// TestSecretValues are those of arguments, of files and of standard input.
func TestSecretValues(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(file, []byte("line\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	streams, _, _ := TestIOStreams("hf_abc\n")
	o := &secretSetOptions{factory: NewFactory(streams), fromFile: []string{file, "token=-"}}
	got, err := o.readValues([]string{"user=ada", "empty="})
	want := map[string][]byte{"user": []byte("ada"), "empty": {}, "key.pem": []byte("line\n"), "token": []byte("hf_abc")}
	if diff := cmp.Diff(want, got.Values); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}

	streams, _, _ = TestIOStreams("pass\n")
	o = &secretSetOptions{factory: NewFactory(streams), registry: submit.Registry{Server: "ghcr.io", Username: "ada"}, passwordStdin: true}
	if got, err := o.readValues(nil); err != nil || got.Registry == nil || got.Registry.Password != "pass" {
		t.Errorf("the login is %+v, %v", got.Registry, err)
	}
}

// TestSecretMistakes are told with what to write.
func TestSecretMistakes(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for line, want := range map[string]string{
		"secret set":                         "needs a name",
		"secret set a":                       "no value",
		"secret set a b":                     "write KEY=VALUE",
		"secret set a b=c b=d":               "given twice",
		"secret set a b/c=d":                 "is not a valid key",
		"secret set A b=c":                   "is not a valid name",
		"secret set a --username u":          "give it with --registry",
		"secret set a b=c --registry r":      "leave out --registry",
		"secret set a --registry r":          "needs --username and --password-stdin",
		"volume create a":                    "is no size",
		"volume create a --size 1Gi --class": "needs an argument",
	} {
		code, _, errOut := gpuctl(t, "", strings.Fields(line)...)
		if code != exitUsage || !strings.Contains(errOut, want) {
			t.Errorf("%s: code %d, %q; want %q", line, code, errOut, want)
		}
	}
}

// TestAStartThatIsCertain to the minute has no two ends.
func TestAStartThatIsCertain(t *testing.T) {
	now := time.Date(2026, 1, 1, 17, 0, 0, 0, time.UTC)
	from, to := now.Add(14*time.Minute), now.Add(14*time.Minute+20*time.Second)
	got := queuePositionText(queue.Entry{Position: 1, Pool: "p", Earliest: &from, Latest: &to, Confidence: 0.9}, now).String()
	if !strings.Contains(got, "starts at about 17:14") || strings.Contains(got, "between") {
		t.Errorf("it says %q", got)
	}
}

// TestANamespaceThatGoes: no right lets anybody create something in it.
func TestANamespaceThatGoes(t *testing.T) {
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "jobs"}, "a", nil)
	refused.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	if got := errorMessage(refused).String(); strings.Contains(got, "for this right") || !strings.Contains(got, "is being deleted") {
		t.Errorf("it says %q", got)
	}
}
