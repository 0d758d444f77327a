package snapshot

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// cluster is an API server with pods, whose lists and watches fail as told.
type cluster struct {
	kubernetes.Interface
	// lists says that it knows no watches that begin with a list.
	lists bool

	mu        sync.Mutex
	revision  int
	pods      []string
	born      map[string]int // pod -> revision
	open      []*watch.RaceFreeFakeWatcher
	failList  error
	failWatch error
}

// IsWatchListSemanticsUnSupported is what client-go asks clients.
func (c *cluster) IsWatchListSemanticsUnSupported() bool { return c.lists }

func (c *cluster) pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: strconv.Itoa(c.revision)}}
}

func (c *cluster) add(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.revision++
	c.pods = append(c.pods, name)
	if c.born == nil {
		c.born = map[string]int{}
	}
	c.born[name] = c.revision
	for _, w := range c.open {
		w.Add(c.pod(name))
	}
}

// fail has requests fail from now on, and ends the watches with an event of an error, or without.
func (c *cluster) fail(list, watching error, last runtime.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failList, c.failWatch = list, watching
	for _, w := range c.open {
		if last != nil {
			w.Error(last)
		}
		w.Stop()
	}
	c.open = nil
}

func (c *cluster) mend() { c.fail(nil, nil, nil) }

func (c *cluster) list(context.Context, metav1.ListOptions) (runtime.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(c.revision)}}
	for _, name := range c.pods {
		list.Items = append(list.Items, *c.pod(name))
	}
	return list, c.failList
}

func (c *cluster) watch(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failWatch != nil {
		return nil, c.failWatch
	}
	w := watch.NewRaceFreeFake()
	if from, err := strconv.Atoi(options.ResourceVersion); err == nil && options.SendInitialEvents == nil {
		for name, revision := range c.born {
			if revision > from {
				w.Add(c.pod(name))
			}
		}
	}
	if ptr.Deref(options.SendInitialEvents, false) {
		for _, name := range c.pods {
			w.Add(c.pod(name))
		}
		end := c.pod("")
		end.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		w.Action(watch.Bookmark, end)
	}
	c.open = append(c.open, w)
	return w, nil
}

// want is the pods of the cluster, as part.
func (c *cluster) want(part Part, namespace string) Query {
	source := &cache.ListWatch{ListWithContextFunc: c.list, WatchFuncWithContext: c.watch}
	return Query{part: part, follow: func(ctx context.Context, client kubernetes.Interface, changed func()) watchedList {
		return watchList(ctx, client, source, func(s *Snapshot) *[]corev1.Pod { return &s.Pods }, &watchProgress{part: part, namespace: namespace, changed: changed})
	}}
}

// told is what a watch says, without what it repeats.
type told struct {
	mu    sync.Mutex
	lines []string
}

func (t *told) take(now *Snapshot, lost error) {
	line := "nothing"
	if now != nil {
		pods := make([]string, len(now.Pods))
		for i := range now.Pods {
			pods[i] = now.Pods[i].Name
		}
		slices.Sort(pods)
		line = "pods " + strings.Join(pods, ",")
	}
	if lost != nil {
		line += ", lost: " + lost.Error()
	}
	if IsRefused(lost) {
		line += " (for good)"
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) == 0 || t.lines[len(t.lines)-1] != line {
		t.lines = append(t.lines, line)
	}
}

var (
	errNoRight  = apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no"))
	errNobody   = apierrors.NewUnauthorized("Unauthorized")
	errDown     = &url.Error{Op: "Get", URL: "https://c/api", Err: syscall.ECONNREFUSED}
	errBusy     = apierrors.NewTooManyRequests("later", 1)
	errInternal = apierrors.NewInternalError(errors.New("etcd has no leader"))
	errExpired  = apierrors.NewResourceExpired("too old")
)

func TestWatchTellsWhatItCannotFollow(t *testing.T) {
	const outage = 10 * time.Minute
	down := "watching pods: " + errDown.Error()
	tests := map[string]struct {
		// before and after are what happens before the watch begins, and once it stands; later, after a long time.
		before, after, later func(c *cluster)
		want                 []string
	}{
		"nothing happens": {want: []string{"pods a"}},
		"something happens": {
			after: func(c *cluster) { c.add("b") },
			want:  []string{"pods a", "pods a,b"},
		},
		"servers end watches": {
			after: (*cluster).mend, later: func(c *cluster) { c.add("b") },
			want: []string{"pods a", "pods a,b"},
		},
		"what it went on from is forgotten": {
			after: func(c *cluster) { c.fail(nil, nil, &errExpired.ErrStatus); c.add("b") },
			want:  []string{"pods a", "pods a,b"},
		},
		"the API server is away, and nothing happens meanwhile": {
			after: func(c *cluster) { c.fail(errDown, errDown, nil) }, later: (*cluster).mend,
			want: []string{"pods a", "pods a, lost: " + down, "pods a"},
		},
		"the API server is away, and comes back with more": {
			after: func(c *cluster) { c.fail(errDown, errDown, nil); c.add("b") }, later: (*cluster).mend,
			want: []string{"pods a", "pods a, lost: " + down, "pods a,b"},
		},
		"the API server has no time": {
			after: func(c *cluster) { c.fail(errBusy, errBusy, nil) }, later: (*cluster).mend,
			want: []string{"pods a", "pods a, lost: watching pods: later", "pods a"},
		},
		"the API server has its own troubles": {
			after: func(c *cluster) { c.fail(errInternal, errInternal, nil) }, later: (*cluster).mend,
			want: []string{"pods a", "pods a, lost: watching pods: " + errInternal.Error(), "pods a"},
		},
		"the right to list is taken away": {
			after: func(c *cluster) { c.fail(errNoRight, errNoRight, nil) }, later: (*cluster).mend,
			want: []string{
				"pods a", "pods a, lost: you have no right to watch pods in namespace lab",
				"pods a, lost: you have no right to list pods in namespace lab",
				"pods a, lost: you have no right to list pods in namespace lab (for good)", "pods a",
			},
		},
		"there is a right to list, and none to watch": {
			before: func(c *cluster) { c.failWatch = errNoRight },
			want: []string{
				"pods a, lost: you have no right to watch pods in namespace lab",
				"pods a, lost: you have no right to watch pods in namespace lab (for good)",
			},
		},
		"there is no right at all": {
			before: func(c *cluster) { c.failList, c.failWatch = errNoRight, errNoRight },
			want: []string{
				"nothing, lost: you have no right to list pods in namespace lab",
				"nothing, lost: you have no right to list pods in namespace lab (for good)",
			},
		},
		"the credentials run out": {
			after: func(c *cluster) { c.fail(errNobody, errNobody, nil) },
			want: []string{
				"pods a", "pods a, lost: the cluster does not accept your credentials any more: log in again",
				"pods a, lost: the cluster does not accept your credentials any more: log in again (for good)",
			},
		},
	}
	for name, tc := range tests {
		for _, lists := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, lists %v", name, lists), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := &cluster{lists: lists, pods: []string{"a"}, revision: 1}
					if tc.before != nil {
						tc.before(c)
					}
					ctx, end := context.WithCancel(t.Context())
					var heard told
					ended := make(chan error, 1)
					go func() { ended <- Watch(ctx, c, heard.take, c.want(PartPods, "lab")) }()
					for _, happens := range []func(*cluster){tc.after, tc.later, nil} {
						time.Sleep(outage)
						if happens != nil {
							happens(c)
						}
					}
					end()
					if err := <-ended; !errors.Is(err, context.Canceled) {
						t.Errorf("it ended with %v", err)
					}
					if len(heard.lines) > len(tc.want) && strings.HasPrefix(heard.lines[0], "nothing") {
						heard.lines = heard.lines[1:] // a watch may fail before what was listed is known
					}
					if diff := cmp.Diff(tc.want, heard.lines); diff != "" {
						t.Errorf("told (-want +got):\n%s", diff)
					}
				})
			})
		}
	}
}

// TestARefusalHasToLast: an API server that has just started refuses what it permits a moment later.
// TestARefusalHasToLast: an API server that has just started refuses what it permits a moment later.
func TestARefusalHasToLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{pods: []string{"a"}, revision: 1}
		ctx, end := context.WithCancel(t.Context())
		var heard told
		ended := make(chan error, 1)
		go func() { ended <- Watch(ctx, c, heard.take, c.want(PartPods, "")) }()
		time.Sleep(time.Hour)
		c.fail(errNoRight, errNoRight, nil)
		time.Sleep(time.Millisecond)
		c.mend()
		time.Sleep(time.Minute)
		end()
		<-ended
		want := []string{"pods a", "pods a, lost: you have no right to watch pods", "pods a"}
		if diff := cmp.Diff(want, heard.lines); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
	})
}

// TestWhatIsRefusedComesFirst, as it needs somebody to do something; the parts that can be followed go on.
func TestWhatIsRefusedComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away, forbidden, well := &cluster{}, &cluster{}, &cluster{}
		ctx, end := context.WithCancel(t.Context())
		var heard told
		ended := make(chan error, 1)
		go func() {
			ended <- Watch(ctx, well, heard.take, away.want(PartJobs, ""), forbidden.want(PartEvents, ""), well.want(PartPods, ""))
		}()
		time.Sleep(time.Minute)
		away.fail(errDown, errDown, nil)
		time.Sleep(time.Minute)
		forbidden.fail(errNoRight, errNoRight, nil)
		time.Sleep(time.Minute)
		well.add("a")
		time.Sleep(time.Minute)
		end()
		<-ended
		want := []string{
			"pods ", "pods , lost: watching jobs: " + errDown.Error(), "pods , lost: you have no right to list events (for good)",
			"pods a, lost: you have no right to list events (for good)",
		}
		if diff := cmp.Diff(want, heard.lines); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
	})
}

func TestALossIsToldInChinese(t *testing.T) {
	loss := &LostError{Part: PartPods, Namespace: "lab", Verb: "watch", cause: errNoRight}
	if text := loss.Message().Localize(phrase.Chinese); text == loss.Error() || !strings.Contains(text, "lab") {
		t.Errorf("it says %q", text)
	}
	if !apierrors.IsForbidden(loss) {
		t.Error("it does not tell what it is")
	}
}
