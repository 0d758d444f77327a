package doctor

import (
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// slots looks for nodes whose device plugin offers parts of GPUs under the name of whole ones.
func (f *Facts) slots() Check {
	const name = "GPUs in parts"
	if check, unread := f.unread(name, snapshot.PartNodes); unread {
		return check
	}
	var found []string
	for i := range f.Nodes {
		inventory, _ := gpu.InventoryOf(&f.Nodes[i]) // another check reports what cannot be read
		if len(inventory.Cards) > 0 && !inventory.Slot.IsWhole() {
			found = append(found, f.Nodes[i].Name+" ("+inventory.Slot.Sharing+")")
		}
	}
	if len(found) == 0 {
		return Check{Name: name, Status: OK, Text: phrase.Of("no device plugin offers parts of GPUs as whole ones")}
	}
	return Check{
		Name: name, Status: Warning,
		Text: counted(len(found), phrase.Of("1 node offers parts of GPUs as whole ones"), phrase.Of("%d nodes offer parts of GPUs as whole ones", len(found))).
			And(": %s; a pod gets one part there, with its part of the memory, which nothing enforces but MIG", some(found)),
		Advice: phrase.Of("share GPUs by memory instead (docs/agent.md), or give these nodes a pool of their own"),
	}
}
