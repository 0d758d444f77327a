package gpu

// The assumed driver reservation on a GPU that reports none: a part of its memory, or a fixed amount where that is more. A T4 of 15360 MiB loses some
// 450, an L40S of 46068 some 600, so both are more than drivers were seen to reserve.
const (
	reservedPercent = 2
	minReservedMiB  = 512
)

// assumedReservedMiB is the assumed driver reservation on a GPU with this memory.
func assumedReservedMiB(memoryMiB int64) int64 {
	return max((memoryMiB*reservedPercent+99)/100, minReservedMiB)
}

// ShareableMiB returns how much of the GPU's memory shares may hold: what the driver leaves. If shares could hold all of the memory, each would stay
// within its own, and the last program would find less than its share. A reservation larger than the memory leaves nothing.
func (c *GPU) ShareableMiB() int64 {
	reserved := assumedReservedMiB(c.MemoryMiB)
	if c.ReservedMiB != nil {
		reserved = *c.ReservedMiB
	}
	return max(c.MemoryMiB-reserved, 0)
}
