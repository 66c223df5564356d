//go:build linux

package main

// sections lists all, in the order in which they are measured.
func sections() []section {
	list := []section{
		createSection(), openSection(), batchSection(), burstSection(), lateSection(), memorySection(), claimSection(), scaleSection(), copiesSection(), sweepSection(), kafkaSection(),
	}
	for i := range list {
		list[i].table.Section = list[i].name
	}
	return list
}

func sectionNames() (names []string) {
	for _, s := range sections() {
		names = append(names, s.name)
	}
	return names
}
