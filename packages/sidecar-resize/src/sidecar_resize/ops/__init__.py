"""Operations that this package registers, one a module, named as in a pipeline."""
