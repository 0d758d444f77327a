package gpudevices

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// denied is what an API server answers whose webhook has said no, with a status of its own choice.
func denied(code int32, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Message: message}}
}

func TestWhatIsForeseenOfABinding(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for name, tc := range map[string]struct {
		answer  error
		refuses bool
	}{
		"it would be bound":                       {},
		"a policy":                                {answer: denied(422, `pods "p" is forbidden: ValidatingAdmissionPolicy 'no' with binding 'no' denied request: not this one`), refuses: true},
		"a policy that says forbidden":            {answer: apierrors.NewForbidden(pods, "p", errors.New("no")), refuses: true},
		"a webhook":                               {answer: denied(400, `admission webhook "no.example" denied the request: not this one`), refuses: true},
		"a webhook that says it is busy":          {answer: denied(429, `admission webhook "no.example" denied the request: later`), refuses: true},
		"a webhook that does not answer":          {answer: apierrors.NewInternalError(errors.New(`failed calling webhook "no.example": EOF`)), refuses: true},
		"a webhook that knows no dry run":         {answer: apierrors.NewBadRequest(`admission webhook "no.example" does not support dry run`)},
		"the fence":                               {answer: denied(403, `pods "p" is forbidden: ValidatingAdmissionPolicy 'g8s-fence' with binding 'g8s-fence' denied request: another scheduler leads`)},
		"the pod is gone":                         {answer: apierrors.NewNotFound(pods, "p")},
		"the pod is bound, or another":            {answer: apierrors.NewConflict(pods, "p", errors.New("already assigned"))},
		"the API server is busy":                  {answer: apierrors.NewTooManyRequests("busy", 1)},
		"the API server does not know who we are": {answer: apierrors.NewUnauthorized("who?")},
		"the API server fails":                    {answer: apierrors.NewInternalError(errors.New("etcd"))},
		"nobody answers":                          {answer: errors.New("EOF")},
	} {
		t.Run(name, func(t *testing.T) {
			var asked corev1.Binding
			var query url.Values
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				query = r.URL.Query()
				if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || r.URL.Path != "/api/v1/namespaces/ns/pods/p/binding" {
					t.Errorf("asked at %s: %v", r.URL.Path, err)
				}
				var status apierrors.APIStatus
				answer := metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusCreated}
				if errors.As(tc.answer, &status) {
					answer = status.Status()
				} else if tc.answer != nil {
					panic(http.ErrAbortHandler) // which breaks the connection off
				}
				answer.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(int(answer.Code))
				_ = json.NewEncoder(w).Encode(answer) // the test fails if nothing comes
			}))
			t.Cleanup(server.Close)
			client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			deps := &Dependencies{Epoch: func() (string, bool) { return "a/1", true }}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}}
			words := deps.CheckBinding(t.Context(), client, pod, "n")
			server.Close() // a connection that breaks off may end the question before its handler
			if tc.refuses && words != tc.answer.Error() || !tc.refuses && words != "" {
				t.Errorf("it is foreseen to be refused with %q", words)
			}
			want := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u", Annotations: map[string]string{names.AnnotationEpoch: "a/1"}},
				Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}
			asked.TypeMeta = metav1.TypeMeta{}
			if diff := cmp.Diff(want, &asked); diff != "" || !slices.Equal(query["dryRun"], []string{metav1.DryRunAll}) {
				t.Errorf("asked with %v (-want +got):\n%s", query, diff)
			}
		})
	}
}

// TestIsVerdict tells a refusal from a webhook that could not be called, though neither binds the pod.
func TestIsVerdict(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for name, tc := range map[string]struct {
		answer error
		want   bool
	}{
		"it is bound":                    {},
		"a policy":                       {answer: apierrors.NewForbidden(pods, "p", errors.New("no")), want: true},
		"a webhook":                      {answer: denied(400, `admission webhook "no.example" denied the request: not this one`), want: true},
		"a webhook that does not answer": {answer: apierrors.NewInternalError(errors.New(`failed calling webhook "no.example": EOF`))},
		"the fence":                      {answer: denied(403, `pods "p" is forbidden: ValidatingAdmissionPolicy 'g8s-fence' with binding 'g8s-fence' denied request: another scheduler leads`)},
		"the pod is bound, or another":   {answer: apierrors.NewConflict(pods, "p", errors.New("already assigned"))},
		"nobody answers":                 {answer: errors.New("EOF")},
	} {
		if got := IsVerdict(tc.answer); got != tc.want {
			t.Errorf("%s: a verdict: %t, want %t", name, got, tc.want)
		}
	}
}
