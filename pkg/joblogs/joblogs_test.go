package joblogs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/inventory"
)

var t0 = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// pod returns a pod whose container main has started, and ended if it has an exit code.
func pod(name string, exit *int32) inventory.Pod {
	main := inventory.ContainerState{Name: "main", Started: ptr.To(t0), Running: exit == nil, ExitCode: exit}
	return inventory.Pod{Name: name, UID: types.UID("uid-" + name), Created: t0, Containers: []inventory.ContainerState{main}}
}

func ranked(p inventory.Pod, rank int) inventory.Pod {
	p.Rank = &rank
	return p
}

func TestWhichContainersAreRead(t *testing.T) {
	waiting := inventory.Pod{Name: "b", Containers: []inventory.ContainerState{{Name: "main"}}}
	initFailed := inventory.Pod{Name: "a", Containers: []inventory.ContainerState{
		{Name: "fetch", Init: true, Started: ptr.To(t0), ExitCode: ptr.To[int32](2)}, {Name: "main"},
	}}
	restarted := pod("a", nil)
	restarted.Containers[0].Restarts = 2
	later := ranked(pod("z", nil), 0)
	later.Created = t0.Add(time.Minute)

	tests := map[string]struct {
		pods    []inventory.Pod
		options Options
		want    []string
		says    string
	}{
		"a pod that has not started has no output": {pods: []inventory.Pod{pod("a", nil), waiting}, want: []string{"a/main"}},
		"a failed pod is read like any other":      {pods: []inventory.Pod{pod("a", ptr.To[int32](1)), pod("b", nil)}, want: []string{"a/main over", "b/main"}},
		"ranks give the order":                     {pods: []inventory.Pod{ranked(pod("a", nil), 1), ranked(pod("b", nil), 0)}, want: []string{"b/main", "a/main"}},
		"a second pod of a rank is told from the first": {
			pods: []inventory.Pod{later, ranked(pod("a", ptr.To[int32](1)), 0)}, want: []string{"a/main over", "z/main again"},
		},
		"an initialisation that failed is what there is to read": {pods: []inventory.Pod{initFailed}, want: []string{"a/fetch over"}},
		"only what has restarted has previous output":            {pods: []inventory.Pod{restarted, pod("b", nil)}, options: Options{Previous: true}, want: []string{"a/main"}},
		"one pod":                                        {pods: []inventory.Pod{pod("a", nil), pod("b", nil)}, options: Options{Pod: "b"}, want: []string{"b/main"}},
		"a pod that is not there":                        {pods: []inventory.Pod{pod("a", nil)}, options: Options{Pod: "c"}, says: `no pod "c": its pods are a`},
		"one rank":                                       {pods: []inventory.Pod{ranked(pod("a", nil), 0), ranked(pod("b", nil), 1)}, options: Options{Rank: ptr.To(1)}, want: []string{"b/main"}},
		"a rank beyond the last":                         {pods: []inventory.Pod{ranked(pod("a", nil), 0)}, options: Options{Rank: ptr.To(2)}, says: "no rank 2"},
		"a rank whose pod is to come":                    {pods: []inventory.Pod{ranked(pod("a", nil), 0)}, options: Options{Rank: ptr.To(1)}},
		"ranks in a job that has none":                   {pods: []inventory.Pod{pod("a", nil)}, options: Options{Rank: ptr.To(0)}, says: "have no ranks"},
		"a container that is not there":                  {pods: []inventory.Pod{pod("a", nil)}, options: Options{Container: "side"}, says: "it has main"},
		"more than may be read at a time, so none is":    {pods: []inventory.Pod{pod("a", nil), pod("b", nil)}, options: Options{MaxStreams: 1}, says: "2 containers"},
		"a container for initialisation, when asked for": {pods: []inventory.Pod{initFailed}, options: Options{Container: "fetch"}, want: []string{"a/fetch over"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			runs, err := selectRuns(inventory.Job{Name: "sft", Desired: 2, Pods: tc.pods}, &tc.options)
			if tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) || tc.says == "" && err != nil {
				t.Fatalf("error %v, want it to say %q", err, tc.says)
			}
			var got []string
			for _, r := range runs {
				text := r.Pod + "/" + r.Container
				if r.Again {
					text += " again"
				}
				if r.over {
					text += " over"
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// kubelet answers for the logs of pods as the API server does.
type kubelet struct {
	mu sync.Mutex
	// logs are the lines of each pod, each a second after the one before.
	logs map[string][]string
	// breakAfter ends a followed log after so many lines, once for each pod.
	breakAfter map[string]int
	// broken pods are answered with this status.
	broken map[string]int
	opened int
}

func (k *kubelet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(r.URL.Path, "/")
	name := parts[len(parts)-2]
	k.mu.Lock()
	defer k.mu.Unlock()
	k.opened++
	if status := k.broken[name]; status != 0 {
		w.WriteHeader(status)
		return
	}
	since, _ := time.Parse(time.RFC3339, r.URL.Query().Get("sinceTime"))
	lines := k.logs[name]
	if after := k.breakAfter[name]; after > 0 && r.URL.Query().Get("follow") == "true" {
		lines = lines[:after]
		delete(k.breakAfter, name)
	}
	for i, line := range lines {
		// Two lines share each second, so that a reader has to tell them apart when it reads on.
		at := t0.Add(time.Duration(i/2) * time.Second)
		if !at.Before(since) {
			fmt.Fprintf(w, "%s %s\n", at.Format(time.RFC3339Nano), line)
		}
	}
}

func newTestReader(t *testing.T, k *kubelet, options Options) (*reader, *[]string) {
	t.Helper()
	server := httptest.NewServer(k)
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	events := Events{
		Line:    func(line Line) error { got = append(got, line.Pod+": "+line.Text); return nil },
		Trouble: func(source Source, _ error) { got = append(got, source.Pod+" cannot be read") },
	}
	options.Namespace = "team"
	return &reader{client: client, options: options, events: events}, &got
}

func TestLogsAreMergedByTime(t *testing.T) {
	k := &kubelet{
		logs:   map[string][]string{"a": {"1", "1", "2", "2"}, "b": {"1", "1", "2"}},
		broken: map[string]int{"c": http.StatusInternalServerError},
	}
	r, got := newTestReader(t, k, Options{})
	runs := []run{{Source: Source{Pod: "a"}}, {Source: Source{Pod: "b"}}, {Source: Source{Pod: "c"}}}
	if err := r.mergeLogs(t.Context(), runs); err != nil {
		t.Fatal(err)
	}
	want := []string{"a: 1", "a: 1", "b: 1", "b: 1", "a: 2", "a: 2", "b: 2", "c cannot be read"}
	if diff := cmp.Diff(want, *got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := r.mergeLogs(t.Context(), runs[2:]); err == nil {
		t.Error("nothing could be read, and that is no error")
	}
}

func TestOnlyMatchingLinesAreGiven(t *testing.T) {
	k := &kubelet{logs: map[string][]string{"a": {"loss 1", "step", "loss 2"}}}
	r, got := newTestReader(t, k, Options{Match: regexp.MustCompile("^loss")})
	if err := r.mergeLogs(t.Context(), []run{{Source: Source{Pod: "a"}}}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a: loss 1", "a: loss 2"}, *got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAReceiverThatFailsEndsTheStream(t *testing.T) {
	k := &kubelet{logs: map[string][]string{"a": {"1", "2"}}}
	r, _ := newTestReader(t, k, Options{})
	full := errors.New("disk full")
	r.events.Line = func(Line) error { return full }
	if err := r.mergeLogs(t.Context(), []run{{Source: Source{Pod: "a"}}}); !errors.Is(err, full) {
		t.Errorf("error %v, want %v", err, full)
	}
}

// TestTasksOfAnArray are there that have no pod now: with four tasks at a time, the fifth; and all once it has finished.
func TestTasksOfAnArray(t *testing.T) {
	running := inventory.Job{Name: "sweep", Desired: 3, Array: &inventory.Array{Tasks: 5, AtOnce: 3}, Pods: []inventory.Pod{ranked(pod("a", nil), 0)}}
	finished := running
	finished.Finished, finished.Array = &t0, &inventory.Array{Tasks: 5, AtOnce: 3, Succeeded: 5}
	for name, job := range map[string]inventory.Job{"running": running, "finished": finished} {
		for index, valid := range map[int]bool{-1: false, 0: true, 4: true, 5: false} {
			_, err := selectRuns(job, &Options{Rank: &index})
			if valid != (err == nil) || !valid && !strings.Contains(err.Error(), "it has 5, from 0 to 4") {
				t.Errorf("%s: task %d gives %v", name, index, err)
			}
		}
	}
}

// TestFollowingAnArray has more tasks one after the other than may be read at a time.
func TestFollowingAnArray(t *testing.T) {
	const tasks = 9
	k := &kubelet{logs: map[string][]string{}}
	r, got := newTestReader(t, k, Options{Job: "sweep", Follow: true, MaxStreams: 2})
	states := make(chan []inventory.Job)
	f := newFollower(r)
	group, ctx := errgroup.WithContext(t.Context())
	finished := make(chan error, 1)
	go func() { finished <- f.processStates(ctx, group, states) }()
	job := inventory.Job{Name: "sweep", Array: &inventory.Array{Tasks: tasks, AtOnce: 1}}
	for i := range tasks {
		k.logs[fmt.Sprint("p", i)] = []string{fmt.Sprint(i)}
	}
	for i := range tasks {
		name := fmt.Sprint("p", i)
		job.Pods = append(job.Pods, ranked(pod(name, nil), i))
		select {
		case states <- []inventory.Job{job}:
		case err := <-finished:
			t.Fatalf("it ended with task %d: %v", i, err)
		}
		job.Pods = slices.Clone(job.Pods) // what was sent is being read
		job.Pods[i] = ranked(pod(name, ptr.To[int32](0)), i)
	}
	job.Status, job.Finished = inventory.StatusSucceeded, &t0
	states <- []inventory.Job{job}
	if err := errors.Join(<-finished, group.Wait()); err != nil {
		t.Fatal(err)
	}
	if len(*got) != tasks {
		t.Errorf("%d lines of %d tasks: %v", len(*got), tasks, *got)
	}
	job.Pods = []inventory.Pod{ranked(pod("a", nil), 0), ranked(pod("b", nil), 1), ranked(pod("c", nil), 2)}
	if _, err := selectRuns(job, &r.options); !errors.As(err, new(*TooManyError)) {
		t.Errorf("three that run at a time give %v", err)
	}
}

// TestFollowing lets a job go through its states while its logs are read.
func TestFollowing(t *testing.T) {
	k := &kubelet{
		logs:       map[string][]string{"a": {"1", "2", "3", "4"}, "b": {"5"}},
		breakAfter: map[string]int{"a": 3},
	}
	r, got := newTestReader(t, k, Options{Job: "sft"})
	states := make(chan []inventory.Job)
	f := newFollower(r)
	group, ctx := errgroup.WithContext(t.Context())
	finished := make(chan error, 1)
	go func() { finished <- f.processStates(ctx, group, states) }()

	job := inventory.Job{Name: "sft", Status: inventory.StatusPending}
	states <- []inventory.Job{job}
	job.Pods = []inventory.Pod{pod("a", nil)}
	states <- []inventory.Job{job}
	job.Pods = []inventory.Pod{pod("a", ptr.To[int32](1)), pod("b", nil)}
	states <- []inventory.Job{job}
	job.Pods = []inventory.Pod{pod("a", ptr.To[int32](1)), pod("b", ptr.To[int32](0))}
	job.Status, job.Finished = inventory.StatusSucceeded, &t0
	states <- []inventory.Job{job}
	if err := errors.Join(<-finished, group.Wait()); err != nil {
		t.Fatal(err)
	}
	perPod := map[string][]string{}
	for _, line := range *got {
		perPod[line[:1]] = append(perPod[line[:1]], line)
	}
	want := map[string][]string{"a": {"a: 1", "a: 2", "a: 3", "a: 4"}, "b": {"b: 5"}}
	if diff := cmp.Diff(want, perPod); diff != "" {
		t.Errorf("every line once, also after the log broke off (-want +got):\n%s", diff)
	}
	if f.job.Status != inventory.StatusSucceeded {
		t.Errorf("the job is %s", f.job.Status)
	}
}

func TestFollowingEnds(t *testing.T) {
	suspended := inventory.Job{Name: "sft", Status: inventory.StatusSuspended}
	tests := map[string]struct {
		states [][]inventory.Job
		check  func(error) bool
	}{
		"no such job":                           {[][]inventory.Job{{}}, func(err error) bool { return errors.As(err, new(*inventory.NotFoundError)) }},
		"the job was deleted before it started": {[][]inventory.Job{{suspended}, {}}, func(err error) bool { return errors.As(err, new(*NoOutputError)) }},
		"the job was deleted while it ran":      {[][]inventory.Job{{{Name: "sft", Pods: []inventory.Pod{pod("a", nil)}}}, {}}, func(err error) bool { return err == nil }},
		"the job has ended, its pods are gone":  {[][]inventory.Job{{{Name: "sft", Finished: &t0}}}, func(err error) bool { return errors.As(err, new(*NoOutputError)) }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r, _ := newTestReader(t, &kubelet{}, Options{Job: "sft"})
			states := make(chan []inventory.Job)
			f := newFollower(r)
			group, ctx := errgroup.WithContext(t.Context())
			finished := make(chan error, 1)
			go func() { finished <- f.processStates(ctx, group, states) }()
			for _, state := range tc.states {
				states <- state
			}
			if err := <-finished; !tc.check(err) {
				t.Errorf("it ended with %v", err)
			}
			if err := group.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCancellingEndsFollowing(t *testing.T) {
	r, _ := newTestReader(t, &kubelet{}, Options{Job: "sft"})
	f := newFollower(r)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.processStates(ctx, &errgroup.Group{}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
}

// TestALineWithoutEndTakesNoMemory though a container can print gigabytes of it.
func TestALineWithoutEndTakesNoMemory(t *testing.T) {
	const size = 3 * (20 << 20) // of whole letters
	log := io.MultiReader(strings.NewReader(t0.Format(time.RFC3339Nano)+" "), io.LimitReader(&endless{}, size), strings.NewReader("\nlast\n"))
	var got, most, cuts int
	var last string
	var before, after runtime.MemStats
	peak := uint64(0)
	runtime.GC()
	runtime.ReadMemStats(&before)
	err := eachLine(log, func(text string, _, cut bool) error {
		got, most, last = got+len(text), max(most, len(text)), text
		if !utf8.ValidString(text) {
			t.Fatalf("a letter was cut: %q", text[len(text)-4:])
		}
		if cut {
			cuts++
		}
		if cuts%500 == 0 {
			runtime.ReadMemStats(&after)
			peak = max(peak, after.HeapAlloc)
		}
		return nil
	})
	if err != nil || last != "last" || got < size || most > MaxLine+utf8.UTFMax || cuts < size/MaxLine-1 {
		t.Errorf("got %d bytes, pieces of up to %d, %d of them cut, the last %q, error %v", got, most, cuts, last, err)
	}
	if peak > before.HeapAlloc+32<<20 {
		t.Errorf("it held %d MiB", (peak-before.HeapAlloc)>>20)
	}
}

// endless is a text without any end of a line, of letters of three bytes.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = "\u8bad"[(e.read+i)%3]
	}
	e.read += len(p)
	return len(p), nil
}

// TestALineThatBreaksOffIsReadAgain, and not taken for one that ended there.
func TestALineThatBreaksOffIsReadAgain(t *testing.T) {
	broken := errors.New("connection reset")
	var got []string
	err := eachLine(io.MultiReader(strings.NewReader("whole\nhal"), iotest.ErrReader(broken)), func(text string, _, _ bool) error {
		got = append(got, text)
		return nil
	})
	if diff := cmp.Diff([]string{"whole"}, got); diff != "" || !errors.Is(err, broken) {
		t.Errorf("error %v, lines (-want +got):\n%s", err, diff)
	}
}

// TestPiecesComeOnce though the log breaks off in the middle of a line and is read again from its beginning.
func TestPiecesComeOnce(t *testing.T) {
	at := func(n int) time.Time { return t0.Add(time.Duration(n) * time.Second) }
	piece := time.Time{}
	c := &cursor{}
	read := func(times ...time.Time) (news []bool) {
		for _, at := range times {
			news = append(news, c.advanceTo(at))
		}
		return news
	}
	if diff := cmp.Diff([]bool{true, true, true, true}, read(at(1), piece, at(2), piece)); diff != "" {
		t.Error(diff)
	}
	c.resetForReopen()
	want := []bool{false, false, false, false, true, true, true}
	if diff := cmp.Diff(want, read(at(1), piece, at(2), piece, piece, at(3), piece)); diff != "" {
		t.Errorf("after it was opened again (-want +got):\n%s", diff)
	}
	c.resetForReopen()
	if diff := cmp.Diff([]bool{false, false, true}, read(at(3), piece, at(3))); diff != "" {
		t.Errorf("after it was opened once more (-want +got):\n%s", diff)
	}
}

func TestALineSplitByTheNode(t *testing.T) {
	got := parseLine(Source{Pod: "a"}, "2026-11-01T12:00:00.000000001Z loss  0.1")
	want := Line{Source: Source{Pod: "a"}, Time: t0.Add(1), Text: "loss  0.1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := parseLine(Source{}, "the rest"); got.Text != "the rest" || !got.Time.IsZero() {
		t.Errorf("a line without a time is %+v", got)
	}
}
