package doctor

import (
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// checkSlots looks for nodes whose device plugin offers parts of GPUs under the name of whole ones.
func (f *Facts) checkSlots() Check {
	const name = "GPUs in parts"
	if check, unread := f.checkUnread(name, snapshot.PartNodes); unread {
		return check
	}
	var found []string
	for i := range f.Nodes {
		inventory, _ := gpu.InventoryOf(&f.Nodes[i]) // another check reports what cannot be read
		if len(inventory.GPUs) > 0 && !inventory.Slot.IsWhole() {
			found = append(found, f.Nodes[i].Name+" ("+inventory.Slot.Sharing+")")
		}
	}
	if len(found) == 0 {
		return Check{Name: name, Status: OK, Text: phrase.Textf("no device plugin offers parts of GPUs as whole ones")}
	}
	return Check{
		Name: name, Status: Warning,
		Text: chooseByCount(len(found), phrase.Textf("1 node offers parts of GPUs as whole ones"), phrase.Textf("%d nodes offer parts of GPUs as whole ones", len(found))).
			Addf(": %s; a pod gets one part there, with its part of the memory, which nothing enforces but MIG", examplesText(found)),
		Advice: phrase.Textf("share GPUs by memory instead (docs/agent.md), or give these nodes a pool of their own"),
	}
}
