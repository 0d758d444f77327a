package harness

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/test/utils/ktesting"
)

// rate is how fast the pods of a workload that are measured were placed. scheduler_perf gives the mean of the pods in each whole second: what
// is placed in the last one, which it does not see the end of, is missing there, and that is most of them where pods wait for evictions.
type rate struct {
	// Case is the name of the test case and of the workload.
	Case string `json:"case"`
	Pods int    `json:"pods"`
	// Seconds are those from the first pod's creation to the last one's binding.
	Seconds float64 `json:"seconds"`
}

// placed is what was seen of the pods of a namespace, of which scheduler_perf makes one for each createPods of a workload.
type placed struct {
	first, last time.Time
	bound       int
}

// stopwatch sees when pods come and are bound.
type stopwatch struct {
	mutex      sync.Mutex
	now        func() time.Time
	namespaces map[string]*placed
}

// timeWorkload has the rate of a workload added to a file, as a line, when it has ended.
func timeWorkload(tCtx ktesting.TContext, pods coreinformers.PodInformer, path string) error {
	s := &stopwatch{now: time.Now, namespaces: map[string]*placed{}}
	_, err := pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { s.sees(nil, object.(*corev1.Pod)) },
		UpdateFunc: func(before, now any) { s.sees(before.(*corev1.Pod), now.(*corev1.Pod)) },
	})
	if err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}
	tCtx.Cleanup(func() {
		measured := s.measured()
		measured.Case = strings.TrimPrefix(tCtx.Name(), "BenchmarkPerfScheduling/")
		if err := addLine(path, measured); err != nil {
			tCtx.Errorf("writing how fast pods were placed: %v", err)
		}
	})
	return nil
}

func (s *stopwatch) sees(before, pod *corev1.Pod) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	at := s.namespaces[pod.Namespace]
	if at == nil {
		at = &placed{first: s.now()}
		s.namespaces[pod.Namespace] = at
	}
	if pod.Spec.NodeName != "" && (before == nil || before.Spec.NodeName == "") {
		at.bound++
		at.last = s.now()
	}
}

// measured is the rate of the pods that came last: those before them are made beforehand, or find no place.
func (s *stopwatch) measured() rate {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var last *placed
	for _, at := range s.namespaces {
		if at.bound > 0 && (last == nil || at.first.After(last.first)) {
			last = at
		}
	}
	if last == nil {
		return rate{}
	}
	return rate{Pods: last.bound, Seconds: last.last.Sub(last.first).Seconds()}
}

func addLine(path string, line any) error {
	data, err := json.Marshal(line)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := file.Write(append(data, '\n')); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}

func TestTheRateIsOfThePodsThatCameLast(t *testing.T) {
	at := time.Unix(0, 0)
	s := &stopwatch{now: func() time.Time { return at }, namespaces: map[string]*placed{}}
	pod := func(namespace, node string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}, Spec: corev1.PodSpec{NodeName: node}}
	}
	for _, step := range []struct {
		after       time.Duration
		before, now *corev1.Pod
	}{
		{0, nil, pod("beforehand", "")},
		{time.Second, pod("beforehand", ""), pod("beforehand", "a")},
		{time.Second, nil, pod("measured", "")},
		{time.Second, nil, pod("measured", "")},
		{time.Second, nil, pod("fits-nowhere", "")},
		{time.Second, pod("measured", ""), pod("measured", "a")},
		{time.Second, pod("measured", ""), pod("measured", "b")},
		{time.Second, pod("measured", "b"), pod("measured", "b")}, // its status
		{time.Second, pod("beforehand", ""), pod("beforehand", "c")},
	} {
		at = at.Add(step.after)
		s.sees(step.before, step.now)
	}
	if got, want := s.measured(), (rate{Pods: 2, Seconds: 4}); got != want {
		t.Errorf("measured %+v, want %+v", got, want)
	}
	if got := (&stopwatch{}).measured(); got != (rate{}) {
		t.Errorf("without pods %+v", got)
	}
}
