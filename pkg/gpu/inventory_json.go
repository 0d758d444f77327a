package gpu

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	kjson "sigs.k8s.io/json"
)

// inventoryVersion is the version of the annotation that we write, and the only one that we read.
const inventoryVersion = 1

// inventoryJSON is the written form of an [Inventory].
type inventoryJSON struct {
	Version int         `json:"version"`
	GPUs    []GPU       `json:"gpus"`
	Links   []Link      `json:"links,omitempty"`
	Sliced  []SlicedGPU `json:"sliced,omitempty"`
}

// ParseInventory reads the annotation g8s.host/gpu-inventory, JSON such as
//
//	{"version":1,
//	 "gpus":[
//	  {"uuid":"GPU-5f1e","index":0,"memoryMiB":81920,"reservedMiB":640,"numaNode":0,"pcieSwitch":"0000:0e:00.0","health":"Healthy"},
//	  {"uuid":"GPU-9c07","index":1,"memoryMiB":81920,"reservedMiB":640,"numaNode":0,"pcieSwitch":"0000:0e:00.0",
//	   "health":"Xid79","since":"2026-11-22T14:03:11Z"}],
//	 "links":[{"gpus":[0,1],"nvlinks":12,"bandwidthGBps":300}],
//	 "sliced":[
//	  {"uuid":"GPU-7d21","index":2,"memoryMiB":81920,"numaNode":1,"health":"Healthy",
//	   "slices":[{"uuid":"MIG-03ac","profile":"1g.10gb","memoryMiB":9728}]}]}
//
// [GPU], [Link] and [SlicedGPU] document the fields; uuid, index, health and profile are required. A link connects each pair of
// its GPUs, so an NVSwitch is one entry. GPUs in MIG mode cannot be allocated whole. They are not in gpus, where a reader that
// does not know sliced would allocate them.
//
// Within a version the form only grows: fields of later writers are ignored, while a field that we know
// is checked, in its exact spelling and given once. A change of meaning requires a new version, which is
// refused here. GPUs come back in order of index. The text is at most 64 KiB.
func ParseInventory(text string) (Inventory, error) {
	if len(text) > maxInventorySize {
		return Inventory{}, fmt.Errorf("%d bytes, want at most %d", len(text), maxInventorySize)
	}
	var parsed inventoryJSON
	strict, err := kjson.UnmarshalStrict([]byte(text), &parsed, kjson.DisallowDuplicateFields)
	if err := cmp.Or(err, errors.Join(strict...)); err != nil {
		return Inventory{}, err
	}
	if parsed.Version != inventoryVersion {
		return Inventory{}, fmt.Errorf("version is %d, want %d", parsed.Version, inventoryVersion)
	}
	slices.SortStableFunc(parsed.GPUs, func(a, b GPU) int { return cmp.Compare(a.Index, b.Index) })
	slices.SortStableFunc(parsed.Sliced, func(a, b SlicedGPU) int { return cmp.Compare(a.Index, b.Index) })
	for i := range parsed.GPUs {
		parsed.GPUs[i].Since = parsed.GPUs[i].Since.UTC()
	}
	for i := range parsed.Sliced {
		parsed.Sliced[i].Since = parsed.Sliced[i].Since.UTC()
	}
	inventory := Inventory{GPUs: parsed.GPUs, Links: parsed.Links, Sliced: parsed.Sliced}
	if err := inventory.Validate(); err != nil {
		return Inventory{}, err
	}
	return inventory, nil
}

// Encode writes the inventory in the form that [ParseInventory] reads. Equal inventories give equal text.
func (inv *Inventory) Encode() (string, error) {
	if err := inv.Validate(); err != nil {
		return "", fmt.Errorf("encoding the inventory: %w", err)
	}
	text, err := json.Marshal(inventoryJSON{Version: inventoryVersion, GPUs: inv.GPUs, Links: inv.Links, Sliced: inv.Sliced})
	if err != nil {
		return "", fmt.Errorf("encoding the inventory: %w", err)
	}
	return string(text), nil
}
