package coscheduling

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
)

// answers is an API server that says the next of its answers, the last one for ever.
type answers struct{ codes []int }

func (a *answers) RoundTrip(request *http.Request) (*http.Response, error) {
	code := a.codes[0]
	if len(a.codes) > 1 {
		a.codes = a.codes[1:]
	}
	body := `{"apiVersion":"scheduling.x-k8s.io/v1alpha1","kind":"PodGroupList","metadata":{"resourceVersion":"7"},"items":[]}`
	if code != http.StatusOK {
		body = fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d}`, code)
	}
	return &http.Response{StatusCode: code, Request: request, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// TestAClusterWithoutPodGroupsIsNoFault, nor is one that does not let the scheduler read them. Once they were there, it is
// one that they cannot be read: nobody is told then that they are gone.
func TestAClusterWithoutPodGroupsIsNoFault(t *testing.T) {
	const ok, unknown, refused, broken = http.StatusOK, http.StatusNotFound, http.StatusForbidden, http.StatusInternalServerError
	tests := map[string]struct {
		codes []int
		// revision is of the last list, "" if it failed.
		revision string
	}{
		"there are some":                        {[]int{ok}, "7"},
		"there is no such kind":                 {[]int{unknown}, resourceVersionOfNone},
		"the kind was taken away":               {[]int{ok, unknown}, resourceVersionOfNone},
		"the scheduler may not read them":       {[]int{refused}, resourceVersionOfNone},
		"the API server forgot the roles":       {[]int{ok, refused}, ""},
		"the API server is broken":              {[]int{broken}, ""},
		"the kind was installed":                {[]int{unknown, ok}, "7"},
		"it was installed, and the right given": {[]int{unknown, refused, ok}, "7"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			client, err := clientFor(&rest.Config{Host: "http://there.invalid", Transport: &answers{tc.codes}})()
			if err != nil {
				t.Fatal(err)
			}
			source, options, revision := &podGroupsOrNone{client: client}, metav1.ListOptions{}, ""
			for range tc.codes {
				list, err := source.List(options)
				revision = ""
				if err == nil {
					revision = list.(metav1.ListInterface).GetResourceVersion()
					options.ResourceVersion = revision
				}
			}
			if revision != tc.revision {
				t.Errorf("the list is of revision %q, want %q", revision, tc.revision)
			}
		})
	}
}

// TestWhereThereAreNoneItIsLookedAgain, by a watch that ends as one that is out of date.
func TestWhereThereAreNoneItIsLookedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		changes, err := (&podGroupsOrNone{}).Watch(metav1.ListOptions{ResourceVersion: resourceVersionOfNone})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		event := <-changes.ResultChan()
		if err := apierrors.FromObject(event.Object); event.Type != watch.Error || !apierrors.IsResourceExpired(err) {
			t.Errorf("the watch ends with %v", event)
		}
		if took := time.Since(began); took != lookAgain {
			t.Errorf("it is looked again after %s, want %s", took, lookAgain)
		}
	})
}

// TestASimulationKnowsItsPodGroups without an API server, and without informers that run.
func TestASimulationKnowsItsPodGroups(t *testing.T) {
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	known := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g"}, Spec: v1alpha1.PodGroupSpec{MinMember: 5}}
	if err := Know(factory, []*v1alpha1.PodGroup{known}); err != nil {
		t.Fatal(err)
	}
	all, err := groupsOf(factory, noClient)
	if err != nil {
		t.Fatal(err)
	}
	if got := all.get(types.NamespacedName{Namespace: "ns", Name: "g"}); got == nil || got.minMember != 5 {
		t.Errorf("got %+v", got)
	}
}
