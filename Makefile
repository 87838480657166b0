.PHONY: container
container: ; ./x image
