package agent

import (
	"maps"
	"path/filepath"
	"slices"

	"g8s.host/gpu-scheduler/pkg/agent/kubelet"
)

// podResources serves what kubelet knows of pods, with cards in the place of slots.
func (a *agent) podResources(o *Options) *kubelet.PodResources {
	return &kubelet.PodResources{
		Kubelet: filepath.Join(o.KubeletDir, "pod-resources", "kubelet.sock"), Socket: o.PodResourcesSocket,
		Cards: a.starter.cardsOf, All: a.cards.all, Log: o.Log,
	}
}

// cardsOf is a [kubelet.Cards].
func (s *Starter) cardsOf(resource string, slots []string) (uuids []string, known bool, err error) {
	view, _ := s.Cards.Now()
	if !slices.Contains(view.Resources(), resource) {
		return nil, false, nil
	}
	claims, err := s.Claims()
	if err != nil {
		return nil, true, err
	}
	records, err := s.Folder.Records()
	if err != nil {
		return nil, true, err
	}
	slots = slices.Sorted(slices.Values(slots))
	for i := range claims {
		if claims[i].Resource != resource || !slices.Equal(claims[i].Slots, slots) {
			continue
		}
		for j := range records {
			if records[j].Name == claims[i].Name {
				uuids = append(uuids, records[j].UUIDs()...) // of init containers too, which have the slots at another time
			}
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(uuids))), true, nil
}

// all returns the cards of a resource, by UUID.
func (c *Cards) all(resource string) (uuids []string, known bool) {
	view, _ := c.Now()
	offer, ok := view.offers()[resource]
	if !ok {
		return nil, false
	}
	return slices.Sorted(maps.Keys(offer.units)), true
}
