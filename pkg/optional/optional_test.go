package optional

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	fakedynamic "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/rest"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

var podGroups = schema.GroupVersionResource{Group: "scheduling.x-k8s.io", Version: "v1alpha1", Resource: "podgroups"}

// answers is an API server that says the next of its answers, the last one forever.
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

// TestAClusterWithoutTheKindIsNoFault, nor is one that does not let the scheduler read them. Once they were there, it is
// one that they cannot be read: nobody is told then that they are gone.
func TestAClusterWithoutTheKindIsNoFault(t *testing.T) {
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
			client, err := dynamic.NewForConfig(&rest.Config{Host: "http://there.invalid", Transport: &answers{tc.codes}})
			if err != nil {
				t.Fatal(err)
			}
			source, options, revision := &Kind{Client: client, Resource: podGroups}, metav1.ListOptions{}, ""
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

// TestWhatMayNotBeReadIsAnErrorOfTheLog, once, also where the kind was installed later than the scheduler.
func TestWhatMayNotBeReadIsAnErrorOfTheLog(t *testing.T) {
	const ok, unknown, refused = http.StatusOK, http.StatusNotFound, http.StatusForbidden
	for name, tc := range map[string]struct {
		codes        []int
		errors, info int
	}{
		"no such kind":             {[]int{unknown, unknown}, 0, 1},
		"no right":                 {[]int{refused, refused, refused}, 1, 0},
		"installed without rights": {[]int{unknown, refused, refused}, 1, 1},
		"all is well":              {[]int{ok}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			client, err := dynamic.NewForConfig(&rest.Config{Host: "http://there.invalid", Transport: &answers{tc.codes}})
			if err != nil {
				t.Fatal(err)
			}
			sink := &lines{}
			source, ctx := &Kind{Client: client, Resource: podGroups, Consequence: "no gang waits"}, klog.NewContext(t.Context(), logr.New(sink))
			for range tc.codes {
				if _, err := source.ListWithContext(ctx, metav1.ListOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			if sink.errors != tc.errors || sink.info != tc.info {
				t.Errorf("%d errors and %d other lines, want %d and %d", sink.errors, sink.info, tc.errors, tc.info)
			}
		})
	}
}

// lines counts what is logged.
type lines struct{ errors, info int }

func (*lines) Init(logr.RuntimeInfo)            {}
func (*lines) Enabled(level int) bool           { return level == 0 }
func (l *lines) Info(int, string, ...any)       { l.info++ }
func (l *lines) Error(error, string, ...any)    { l.errors++ }
func (l *lines) WithValues(...any) logr.LogSink { return l }
func (l *lines) WithName(string) logr.LogSink   { return l }

// TestWhereThereAreNoneItIsLookedAgain by an informer: an API server that starts is asked soon, and a CRD that is installed later
// is found within maxRetryInterval.
func TestWhereThereAreNoneItIsLookedAgain(t *testing.T) {
	for _, after := range []time.Duration{500 * time.Millisecond, 5 * time.Second, time.Minute, 10 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			client := fakedynamic.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{podGroups: "PodGroupList"},
				&unstructured.Unstructured{Object: map[string]any{
					"apiVersion": podGroups.GroupVersion().String(), "kind": "PodGroup", "metadata": map[string]any{"namespace": "ns", "name": "g"},
				}})
			asked := 0
			client.PrependReactor("list", "*", func(k8stesting.Action) (bool, runtime.Object, error) {
				asked++
				return time.Since(began) < after, nil, apierrors.NewForbidden(podGroups.GroupResource(), "", nil)
			})
			ctx, end := context.WithCancel(t.Context())
			informer := cache.NewSharedIndexInformer(&Kind{Client: client, Resource: podGroups}, &unstructured.Unstructured{}, 0, cache.Indexers{})
			var running sync.WaitGroup
			running.Go(func() { informer.RunWithContext(ctx) })
			for len(informer.GetStore().List()) == 0 && time.Since(began) < time.Hour {
				time.Sleep(100 * time.Millisecond)
			}
			const backoff = 2 * time.Second // of client-go, once
			if late := time.Since(began) - after; late > min(after+minRetryInterval, maxRetryInterval)+backoff {
				t.Errorf("what is there after %s is found %s later", after, late)
			}
			if most := 6 + int(after/maxRetryInterval); asked > most+2 {
				t.Errorf("it is asked %d times in %s", asked, after)
			}
			end()
			running.Wait()
		})
	}
}

// pages is an API server with five objects, which gives out two at a time whatever limit is asked for, and a watch of one event of each kind.
type pages struct{ asked []string }

func (p *pages) RoundTrip(request *http.Request) (*http.Response, error) {
	query := request.URL.Query()
	p.asked = append(p.asked, query.Get("resourceVersion")+"|"+query.Get("limit")+"|"+query.Get("continue"))
	group := func(name, revision string) string {
		return fmt.Sprintf(`{"apiVersion":"scheduling.x-k8s.io/v1alpha1","kind":"PodGroup","metadata":{"namespace":"ns","name":%q,"resourceVersion":%q},"spec":{"minMember":2}}`, name, revision)
	}
	body := fmt.Sprintf(`{"type":"ADDED","object":%s}{"type":"BOOKMARK","object":%s}`, group("new", "8"), group("", "9"))
	if query.Get("watch") == "" {
		from := len(query.Get("continue")) // a letter for each that was given out
		items, next := []string{}, ""
		for i := from; i < min(from+2, 5); i++ {
			items = append(items, group(fmt.Sprint("g", i), "1"))
		}
		if from+2 < 5 {
			next = strings.Repeat("x", from+2)
		}
		body = fmt.Sprintf(`{"apiVersion":"scheduling.x-k8s.io/v1alpha1","kind":"PodGroupList","metadata":{"resourceVersion":"7","continue":%q},"items":[%s]}`, next, strings.Join(items, ","))
	}
	return &http.Response{StatusCode: http.StatusOK, Request: request, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// keptName is what is kept of an object in a test.
type keptName struct {
	metav1.TypeMeta
	metav1.ObjectMeta
}

func (k *keptName) DeepCopyObject() runtime.Object { return k }

// TestOfVeryManyObjectsLittleIsKept, page by page, and of each that a watch tells of: bookmarks, too, which have nothing but a revision.
func TestOfVeryManyObjectsLittleIsKept(t *testing.T) {
	server := &pages{}
	client, err := dynamic.NewForConfig(&rest.Config{Host: "http://there.invalid", Transport: server})
	if err != nil {
		t.Fatal(err)
	}
	source := &Kind{Client: client, Resource: podGroups, Reduce: func(object *unstructured.Unstructured) runtime.Object {
		return &keptName{ObjectMeta: metav1.ObjectMeta{Name: object.GetName(), ResourceVersion: object.GetResourceVersion()}}
	}}
	list, err := source.List(metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		t.Fatal(err)
	}
	objects, err := meta.ExtractList(list)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, object := range objects {
		names = append(names, object.(*keptName).Name)
	}
	if got := strings.Join(names, " ") + " of " + list.(metav1.ListMetaAccessor).GetListMeta().GetResourceVersion(); got != "g0 g1 g2 g3 g4 of 7" {
		t.Errorf("got %s", got)
	}
	if got := strings.Join(server.asked, " "); got != "|500| |500|xx |500|xxxx" {
		t.Errorf("asked %s", got)
	}
	changes, err := source.Watch(metav1.ListOptions{ResourceVersion: "7"})
	if err != nil {
		t.Fatal(err)
	}
	defer changes.Stop()
	for _, want := range []string{"8", "9"} {
		event := <-changes.ResultChan()
		if got, ok := event.Object.(*keptName); !ok || got.ResourceVersion != want {
			t.Errorf("%s of %T %v, want revision %s", event.Type, event.Object, event.Object, want)
		}
	}
}

// TestAWatchThatIsStoppedEnds with all that runs for it: with a change that is not read any more, with none, and after the API server has ended it.
func TestAWatchThatIsStoppedEnds(t *testing.T) {
	source := &Kind{Reduce: func(object *unstructured.Unstructured) runtime.Object {
		return &keptName{ObjectMeta: metav1.ObjectMeta{Name: object.GetName()}}
	}}
	for name, meanwhile := range map[string]func(*watch.FakeWatcher){
		"a change is not read": func(changes *watch.FakeWatcher) { changes.Add(&unstructured.Unstructured{}) },
		"nothing has changed":  func(*watch.FakeWatcher) {},
		"it has ended before":  func(changes *watch.FakeWatcher) { changes.Stop() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // which fails where a goroutine is left
				changes := watch.NewFake()
				kept := source.reduceChanges(changes)
				meanwhile(changes)
				synctest.Wait()
				kept.Stop()
				synctest.Wait()
				if !changes.IsStopped() {
					t.Error("the watch of the API server goes on")
				}
			})
		})
	}
}
