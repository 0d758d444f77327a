package controller

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"g8s.host/gpu-scheduler/test/clustertest"
)

// TestTwoGangsDoNotShareAQuotaInHalves: a quota becomes free one GPU at a time, and two gangs take what comes. One of them gives its part
// back, so that the other starts; when that has ended, it starts, too.
func TestTwoGangsDoNotShareAQuotaInHalves(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	const gpus = 4
	e.Kubectl("create", "quota", "gpus", "-n", e.Namespace, fmt.Sprint("--hard=requests.nvidia.com/gpu=", gpus))
	var fillers []string
	for i := range gpus {
		fillers = append(fillers, fmt.Sprint("filler-", i))
		e.Start(clustertest.Job{Name: fillers[i], GPUs: 1})
	}
	gangs := []string{"gang-a", "gang-b"}
	for _, name := range gangs {
		e.Submit(clustertest.Job{Name: name, GPUs: 1, Nodes: gpus})
	}
	for _, filler := range fillers { // slowly, so that the parts fall as they like
		e.Kubectl("delete", "job", "-n", e.Namespace, filler, "--wait=false")
		time.Sleep(3 * time.Second)
	}
	running := func(name string) int {
		out := e.Kubectl("get", "pods", "-n", e.Namespace, "-l", "g8s.host/job="+name, "--field-selector=status.phase=Running", "-o", "name")
		return len(strings.Fields(out))
	}
	first, second := "", ""
	e.Within(90*time.Second, "one of the gangs to run", func(context.Context) (bool, error) {
		for i, name := range gangs {
			if running(name) == gpus {
				first, second = name, gangs[1-i]
			}
		}
		return first != "", nil
	})
	e.Kubectl("delete", "job", "-n", e.Namespace, first, "--wait=false")
	e.Within(2*time.Minute, "the other gang to run", func(context.Context) (bool, error) { return running(second) == gpus, nil })
	if behind := e.Kubectl("get", "job", "-n", e.Namespace, second, "-o", `jsonpath={.metadata.annotations.g8s\.host/quota-behind}`); behind != "" {
		t.Errorf("it runs, and is still said to come after %s", behind)
	}
}
