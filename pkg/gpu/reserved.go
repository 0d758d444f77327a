package gpu

// What the driver is taken to keep of a card where nothing tells: a part of its memory, or an amount where that is more. A T4
// of 15360 MiB loses some 450, an L40S of 46068 some 600, so both are more than drivers were seen to keep.
const (
	reservedPercent  = 2
	leastReservedMiB = 512
)

// assumedReservedMiB is what the driver is taken to keep of a card of this memory.
func assumedReservedMiB(memoryMiB int64) int64 {
	return max((memoryMiB*reservedPercent+99)/100, leastReservedMiB)
}

// ShareableMiB returns how much of the card's memory shares may hold: what the driver leaves of it. Shares that held all of
// the memory would each keep to their own, and the last program would find less than its share. A driver that is said to
// keep more than there is leaves nothing.
func (c *Card) ShareableMiB() int64 {
	reserved := assumedReservedMiB(c.MemoryMiB)
	if c.ReservedMiB != nil {
		reserved = *c.ReservedMiB
	}
	return max(c.MemoryMiB-reserved, 0)
}
