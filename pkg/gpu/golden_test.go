package gpu

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"g8s.host/gpu-scheduler/test/golden"
)

// TestPlacementDrawings runs the stories in testdata/place: commands, a line of dashes, and what comes of
// them, drawn. A story goes on from paragraph to paragraph:
//
//	node cards=8 memory=81920 switch=4 numa=4 nvlink=0-3:300   cards per switch and per NUMA node
//	place A whole=4 min=40000                                  one container
//	place b cards=2 share=2000                                 2000 MiB of each of 2 cards
//	foreign z whole=2                                          a pod that does not name its cards
//	remove A
//	bad 3        good 3
//
// In a drawing a letter is the pod that has the card whole, a bar is how full a shared card is, · is free
// and x is unhealthy.
func TestPlacementDrawings(t *testing.T) {
	files, err := filepath.Glob("testdata/place/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories in testdata/place: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			story, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, file, tell(t, string(story)))
		})
	}
}

// tell runs a story and returns it with its drawings made again.
func tell(t *testing.T, story string) string {
	b := &drawnNode{t: t}
	var told []string
	for _, paragraph := range strings.Split(strings.TrimSpace(story), "\n\n") {
		if strings.HasPrefix(paragraph, "#") {
			told = append(told, paragraph)
			continue
		}
		commands, _, _ := strings.Cut(paragraph, "\n----")
		drawing := ""
		for _, command := range strings.Split(commands, "\n") {
			drawing += b.run(command)
		}
		told = append(told, commands+"\n----\n"+b.draw()+strings.TrimSuffix(drawing, "\n"))
	}
	return strings.Join(told, "\n\n") + "\n"
}

// drawnNode is the node of a story.
type drawnNode struct {
	t         *testing.T
	inventory Inventory
	allocator *Allocator
	used      Used
	pods      map[string]Holding
}

// run does one command and returns what there is to say about it.
func (b *drawnNode) run(command string) string {
	words := strings.Fields(command)
	options := map[string]string{}
	for _, word := range words[1:] {
		if key, value, ok := strings.Cut(word, "="); ok {
			options[key] = strings.TrimPrefix(options[key]+";"+value, ";")
		}
	}
	switch words[0] {
	case "node":
		b.node(options)
	case "place":
		return b.place(words[1], options)
	case "foreign":
		b.add(words[1], UnknownHolding(b.demand(options)))
	case "remove":
		h := b.pods[words[1]]
		if err := b.used.Remove(&h); err != nil {
			b.t.Fatal(err)
		}
		delete(b.pods, words[1])
	case "bad", "good":
		health := map[string]string{"bad": "Xid79", "good": Healthy}[words[0]]
		b.inventory.GPUs[number(b.t, words[1])].Health = health
		b.allocator = allocatorOf(b.t, b.inventory)
	default:
		b.t.Fatalf("no command %q", command)
	}
	return ""
}

func (b *drawnNode) node(options map[string]string) {
	n := int(number(b.t, options["cards"]))
	*b = drawnNode{t: b.t, inventory: inventory(n), pods: map[string]Holding{}}
	for i, memory := range strings.Split(options["memory"], ",") {
		for ; memory != "" && i < n; i += strings.Count(options["memory"], ",") + 1 {
			b.inventory.GPUs[i].MemoryMiB = number(b.t, memory)
		}
	}
	if options["switch"] != "" {
		switched(int(number(b.t, options["switch"])), int(number(b.t, options["numa"])))(&b.inventory)
	}
	for _, link := range strings.FieldsFunc(options["nvlink"], func(r rune) bool { return r == ';' }) {
		cards, gbps, _ := strings.Cut(link, ":")
		linked(int(number(b.t, gbps)), cardsIn(b.t, cards)...)(&b.inventory)
	}
	b.allocator = allocatorOf(b.t, b.inventory)
}

func (b *drawnNode) demand(options map[string]string) *Demand {
	d := &Demand{MemoryMinMiB: number(b.t, options["min"]), ShareMiB: number(b.t, options["share"])}
	d.Containers = []ContainerDemand{{Name: "main", Whole: number(b.t, options["whole"]), Shared: number(b.t, options["cards"])}}
	d.Whole = d.Containers[0].Whole
	return d
}

func (b *drawnNode) add(pod string, h Holding) {
	b.used.Add(&h)
	b.pods[pod] = h
}

func (b *drawnNode) place(pod string, options map[string]string) string {
	allocation, reason := b.allocator.Allocate(&b.used, b.demand(options))
	if !reason.IsZero() {
		return fmt.Sprintf("%s: does not fit: %s\n", pod, reason.Detail())
	}
	b.add(pod, allocation.Holding)
	if allocation.Shared != 0 {
		return fmt.Sprintf("%s shares %v\n", pod, allocation.Shared)
	}
	a := b.allocator
	if allocation.Whole.Len() == 1 {
		return fmt.Sprintf("%s has %v\n", pod, allocation.Whole)
	}
	return fmt.Sprintf("%s has %v: %d GB/s, %v, value %d\n", pod, allocation.Whole,
		a.SetBandwidth(allocation.Whole), a.SlowestPath(allocation.Whole), a.SetValue(allocation.Whole))
}

func (b *drawnNode) draw() string {
	var cards strings.Builder
	for card := range b.inventory.GPUs {
		if card > 0 && b.inventory.GPUs[card].PCIeSwitch != b.inventory.GPUs[card-1].PCIeSwitch {
			cards.WriteString("| ")
		}
		cards.WriteString(b.drawCard(card) + " ")
	}
	left := b.allocator.PotentialOf(b.allocator.FreeGPUs(&b.used))
	return fmt.Sprintf("%s   sets left: %d of 8, %d of 4, %d of 2\n", cards.String(), left.Eights, left.Fours, left.Twos)
}

func (b *drawnNode) drawCard(card int) string {
	for _, pod := range slices.Sorted(maps.Keys(b.pods)) {
		if b.pods[pod].Whole.Has(card) {
			return pod
		}
	}
	switch {
	case b.used.MemoryOn(card) > 0:
		eighths := 8 * b.used.MemoryOn(card) / b.inventory.GPUs[card].MemoryMiB
		return string([]rune("▁▁▂▃▄▅▆▇█")[eighths])
	case b.inventory.GPUs[card].Health != Healthy:
		return "x"
	}
	return "·"
}

// number reads a number; "" is 0.
func number(t *testing.T, text string) int64 {
	t.Helper()
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// cardsIn reads a list of cards and ranges, such as 0,4-7.
func cardsIn(t *testing.T, text string) []int {
	var cards []int
	for _, part := range strings.Split(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		for card := number(t, first); card <= number(t, last); card++ {
			cards = append(cards, int(card))
		}
	}
	return cards
}
