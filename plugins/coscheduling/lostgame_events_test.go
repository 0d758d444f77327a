package coscheduling

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/test/fixture"
)

// open opens nodes again whose time has come.
func (g *game) open(now time.Time) {
	for node, until := range g.closed {
		if !now.Before(until) {
			delete(g.closed, node)
			g.refresh(node)
			g.wake(nil)
		}
	}
}

// live are the members that have a node, or have none.
func (g *game) live(bound bool) (pods []*corev1.Pod) {
	for _, pod := range g.groupPods(types.NamespacedName{Namespace: "ns", Name: "g"}) {
		if (pod.Spec.NodeName != "") == bound {
			pods = append(pods, pod)
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods
}

// loseOne takes a member: its user deletes it, or its node is closed and the member evicted.
func (g *game) loseOne(now time.Time) {
	bound := g.live(true)
	if len(bound) == 0 {
		return
	}
	pod := bound[g.random.IntN(len(bound))]
	if g.random.IntN(2) == 0 {
		node := slices.IndexFunc(g.on[:], func(on []*corev1.Pod) bool {
			return slices.ContainsFunc(on, func(p *corev1.Pod) bool { return p.UID == pod.UID })
		})
		g.closed[node] = now.Add(time.Duration(5+g.random.IntN(15)) * time.Second)
		g.refresh(node)
	}
	g.leave(pod, now)
}

// leave has a pod end some time from now, and be made again before that or later.
func (g *game) leave(pod *corev1.Pod, now time.Time) {
	gone := pod.DeepCopy()
	gone.DeletionTimestamp = ptr.To(metav1.NewTime(now.Add(30 * time.Second)))
	g.must(g.pods.Update(gone))
	g.podChanged(gone)
	g.exits[pod.UID] = now.Add(time.Duration(g.random.IntN(8)) * time.Second)
	g.remakes = append(g.remakes, now.Add(time.Duration(g.random.IntN(8000))*time.Millisecond))
}

// exit removes a pod from its node.
func (g *game) exit(uid types.UID) {
	delete(g.exits, uid)
	for node := range g.on {
		at := slices.IndexFunc(g.on[node], func(pod *corev1.Pod) bool { return pod.UID == uid })
		if at < 0 {
			continue
		}
		pod := g.on[node][at]
		g.on[node] = slices.Delete(slices.Clone(g.on[node]), at, at+1)
		g.refresh(node)
		g.must(g.pods.Delete(pod))
		g.podGone(pod)
		g.wake(pod)
	}
}

// strangers come to nodes with room, and go.
func (g *game) strangers() {
	node := g.random.IntN(len(g.on))
	_, closed := g.closed[node]
	switch {
	case len(g.on[node]) == 0 && !closed && g.random.IntN(4) == 0:
		g.made++
		pod := fixture.Pod(fmt.Sprint("other-", g.made)).GPUs(8).Obj()
		pod.Namespace, pod.UID = "ns", types.UID(pod.Name)
		g.must(g.pods.Add(pod))
		g.put(pod, node)
	case len(g.on[node]) == 1 && strings.HasPrefix(g.on[node][0].Name, "other") && g.random.IntN(12) == 0:
		g.exit(g.on[node][0].UID)
	}
}

// wake queues the members that may have room since a pod has gone, nil for a node that has been opened.
func (g *game) wake(gone *corev1.Pod) {
	for _, pod := range g.live(false) {
		queue := true
		if gone != nil {
			what, err := g.afterPodChange(klog.Background(), pod, gone, nil)
			queue = err != nil || what == fwk.Queue
		}
		if queue {
			g.queue = append(g.queue, pod.Name)
		}
	}
}
