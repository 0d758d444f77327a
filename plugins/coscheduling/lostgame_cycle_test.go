package coscheduling

import (
	"fmt"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// schedule tries the members that were queued, and takes away those that the scheduler ends.
func (g *game) schedule() {
	for range 20 {
		for _, name := range append(g.queue, g.tried()...) {
			g.queue = append(g.queue, strings.TrimPrefix(name, "ns/"))
		}
		g.forget()
		names := slices.Compact(slices.Sorted(slices.Values(g.queue)))
		if g.queue = nil; len(names) == 0 {
			break
		}
		for _, name := range names {
			if at := slices.IndexFunc(g.live(false), func(pod *corev1.Pod) bool { return pod.Name == name }); at >= 0 {
				g.attempt(g.live(false)[at])
			}
		}
	}
	for _, name := range g.evicted() {
		for _, pod := range g.live(true) {
			if pod.Name == name {
				g.ended++
				g.leave(pod, time.Now())
			}
		}
	}
	g.client.ClearActions()
}

// attempt is one scheduling cycle of a member.
func (g *game) attempt(pod *corev1.Pod) {
	if g.placeOf(pod) != placeNone || !g.PreEnqueue(g.Context(), pod).IsSuccess() {
		return
	}
	cs, nodes, refused := g.aim(pod)
	for node := range g.on {
		_, closed := g.closed[node]
		if refused != "" || closed || len(g.on[node]) > 0 || nodes != nil && !slices.Contains(nodes, fmt.Sprint("n", node)) {
			continue
		}
		if status, _ := g.Permit(g.Context(), cs, pod, fmt.Sprint("n", node)); status.IsWait() {
			g.on[node] = []*corev1.Pod{pod}
			g.refresh(node)
			g.hold(pod)
		} else if status.IsSuccess() {
			g.put(pod, node)
		}
		g.settleHeld()
		return
	}
	g.PostFilter(g.Context(), cs, pod, nil)
	synctest.Wait()
	g.settleHeld()
}

// settleHeld binds the members that waited in Permit and may start, and takes their places from those that may not.
func (g *game) settleHeld() {
	g.mu.Lock()
	held := g.held
	g.held = slices.DeleteFunc(slices.Clone(held), func(h *heldPod) bool { return h.allowed || h.refused != "" })
	g.mu.Unlock()
	for _, h := range held {
		for node := range g.on {
			if !slices.Contains(g.on[node], h.pod) || !h.allowed && h.refused == "" {
				continue
			}
			if g.on[node] = nil; h.allowed {
				g.put(h.pod, node)
			} else {
				g.refresh(node)
			}
		}
	}
}
